/* mask.c: one fiber's mask of signals, which is its thread's while it runs. */
#include "mask.h"
#include "carrier.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t mf_mask_set(uint64_t mask)
{
    uint64_t before = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before, sizeof mask);
    return before;
}

uint64_t mf_mask_of_thread(void)
{
    uint64_t mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask);
    return mask;
}

bool mf_mask_take(int signal_number)
{
    uint64_t set = MF_MASK_BIT(signal_number);
    return syscall(SYS_rt_sigtimedwait, &set, NULL, &(struct timespec){0}, sizeof set) == signal_number;
}

mf_hold mf_mask_hold(void)
{
    bool holds = !mf_this_carrier || (mf_current && mf_current->mask.is_own);
    return (mf_hold){.holds = holds, .before = holds ? mf_mask_set(UINT64_MAX) : 0};
}

void mf_mask_let_go(mf_hold hold)
{
    if (hold.holds)
        mf_mask_set(hold.before);
}

/* The kernel blocks no SIGKILL and no SIGSTOP, and glibc keeps two for itself (internal-signals.h). */
#define NEVER_BLOCKED (MF_MASK_BIT(SIGKILL) | MF_MASK_BIT(SIGSTOP) | MF_MASK_BIT(32) | MF_MASK_BIT(33))

static void note_request(mf_mask *mask, int how, uint64_t set)
{
    uint64_t programs = mf_carrier_programs_mask();
    if (how == SIG_SETMASK) {
        mask->added = set & ~programs;
        mask->removed = programs & ~set;
    } else if (how == SIG_BLOCK) {
        mask->added |= set;
        mask->removed &= ~set;
    } else {
        mask->added &= ~set;
        mask->removed |= set;
    }
}

/* A handler that is left by a jump leaves the mask as it is, like the kernel. */
static void let_in(mf_mask *mask, int signal_number)
{
    struct sigaction action;
    uint64_t bit = MF_MASK_BIT(signal_number), added = mask->added, removed = mask->removed;
    sigaction(signal_number, NULL, &action);
    uint64_t handlers = mf_mask_of_set(&action.sa_mask) | (action.sa_flags & SA_NODEFER ? 0 : bit);
    note_request(mask, SIG_BLOCK, handlers & ~NEVER_BLOCKED);
    mask->awaited &= ~bit;
    uint64_t before = mf_mask_of_thread();
    mf_mask_set(before & ~bit);
    mf_mask_set(before);
    mask->added = added;
    mask->removed = removed;
}

void mf_mask_let_in_awaited(void)
{
    mf_mask *mask = &mf_current->mask;
    uint64_t now;
    while ((now = mask->awaited & ~mf_mask_of_fiber()))
        let_in(mask, __builtin_ctzll(now) + 1);
}

/* What the fiber has sent to itself comes now, though the carrier goes on blocking it. Nothing else does: what is
 * pending for the process is for its own threads. */
static void put_in_force(mr_fiber *fiber)
{
    uint64_t carriers = fiber->carrier->blocked_signals;
    uint64_t blocked = (carriers | fiber->mask.added) & ~fiber->mask.removed;
    fiber->mask.blocked = blocked;
    fiber->mask.is_own = blocked != carriers;
    mf_mask_let_in_awaited(); /* a handler that waits leaves in the record what was blocked for it */
    fiber->mask.blocked = blocked;
    mf_mask_set(blocked);
}

void mf_mask_change(int how, uint64_t set)
{
    int error = errno;
    note_request(&mf_current->mask, how, set & ~NEVER_BLOCKED);
    put_in_force(mf_current);
    errno = error;
}

void mf_mask_restore(uint64_t added, uint64_t removed)
{
    mf_current->mask.added = added;
    mf_current->mask.removed = removed;
    put_in_force(mf_current);
}

uint64_t mf_mask_of_fiber(void)
{
    return (mf_carrier_programs_mask() | mf_current->mask.added) & ~mf_current->mask.removed;
}

/* A SIGPIPE that the fiber caused and wants to take with sigtimedwait must not meet another fiber, which does not block
 * it. */
static bool take_pending_sigpipe(const mr_fiber *fiber)
{
    return (MF_MASK_BIT(SIGPIPE) & fiber->mask.blocked & ~fiber->carrier->blocked_signals) && mf_mask_take(SIGPIPE);
}

/* A handler that waits has its own signals blocked, too, which only the kernel knows. Between the steps none may run: it
 * might wait, and the fiber would come here in the midst of them. */
void mf_mask_put_off(mr_fiber *fiber)
{
    fiber->mask.blocked = mf_mask_set(UINT64_MAX);
    fiber->mask.has_sigpipe = take_pending_sigpipe(fiber);
    mf_mask_set(fiber->carrier->blocked_signals);
}

void mf_mask_put_on(const mr_fiber *fiber)
{
    if (fiber->mask.has_sigpipe) {
        mf_mask_set(UINT64_MAX);
        syscall(SYS_tgkill, getpid(), fiber->carrier->thread_id, SIGPIPE);
    }
    mf_mask_set(fiber->mask.blocked);
}
