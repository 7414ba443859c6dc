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
static bool blocks_everything(uint64_t mask)
{
    uint64_t never_blocked = MF_MASK_BIT(SIGKILL) | MF_MASK_BIT(SIGSTOP) | MF_MASK_BIT(32) | MF_MASK_BIT(33);
    return (mask | never_blocked) == UINT64_MAX;
}

/* A mask with all that the carrier blocks in it, short of everything, is the one that the fiber had, put back. */
static void note_whole_mask(mr_fiber *fiber, uint64_t now)
{
    uint64_t carriers = fiber->carrier->blocked_signals, besides = now & ~carriers;
    bool is_put_back = !(carriers & ~now) && !blocks_everything(now);
    fiber->mask.added = is_put_back ? besides : now;
    fiber->mask.removed = is_put_back ? 0 : ~now;
}

static void note_request(mr_fiber *fiber, int how, uint64_t set, uint64_t now)
{
    if (how == SIG_SETMASK) {
        note_whole_mask(fiber, now);
        return;
    }
    uint64_t added = how == SIG_BLOCK ? set : 0, removed = how == SIG_UNBLOCK ? set : 0;
    fiber->mask.added = (fiber->mask.added | added) & ~removed;
    fiber->mask.removed = (fiber->mask.removed | removed) & ~added;
}

void mf_mask_note_change(int how, const sigset_t *set)
{
    int error = errno;
    mr_fiber *fiber = mf_current;
    fiber->mask.blocked = mf_mask_of_thread();
    fiber->mask.is_own = fiber->mask.blocked != fiber->carrier->blocked_signals;
    note_request(fiber, how, mf_mask_of_set(set), fiber->mask.blocked);
    errno = error;
}

uint64_t mf_mask_to_inherit(void)
{
    return (mf_carrier_programs_mask() | mf_current->mask.added) & ~mf_current->mask.removed;
}

/* A SIGPIPE that the fiber caused and wants to take with sigtimedwait must not meet another fiber, which does not block
 * it. */
static bool take_pending_sigpipe(const mr_fiber *fiber)
{
    uint64_t set = MF_MASK_BIT(SIGPIPE) & fiber->mask.blocked & ~fiber->carrier->blocked_signals;
    return set && syscall(SYS_rt_sigtimedwait, &set, NULL, &(struct timespec){0}, sizeof set) == SIGPIPE;
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
