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

/* It comes now, though the carrier goes on blocking it. Nothing else does: what is pending for the process is for its
 * own threads. */
static void let_in_awaited(mf_mask *mask, uint64_t let_in)
{
    uint64_t now = let_in & mask->awaited;
    mask->awaited &= ~now;
    if (now & mask->blocked)
        mf_mask_set(mask->blocked & ~now);
}

void mf_mask_change(int how, uint64_t set)
{
    int error = errno;
    mr_fiber *fiber = mf_current;
    uint64_t before = mf_mask_of_fiber(), carriers = fiber->carrier->blocked_signals;
    note_request(&fiber->mask, how, set & ~NEVER_BLOCKED);
    fiber->mask.blocked = (carriers | fiber->mask.added) & ~fiber->mask.removed;
    fiber->mask.is_own = fiber->mask.blocked != carriers;
    let_in_awaited(&fiber->mask, before & ~mf_mask_of_fiber());
    mf_mask_set(fiber->mask.blocked);
    errno = error;
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

void mf_mask_put_off(mr_fiber *fiber)
{
    fiber->mask.has_sigpipe = take_pending_sigpipe(fiber);
    mf_mask_set(fiber->carrier->blocked_signals);
}

void mf_mask_put_on(const mr_fiber *fiber)
{
    mf_mask_set(fiber->mask.blocked);
    if (fiber->mask.has_sigpipe)
        syscall(SYS_tgkill, getpid(), fiber->carrier->thread_id, SIGPIPE);
}
