/* mask.c: one fiber's mask of signals, which is its thread's while it runs. */
#include "mask.h"
#include "carrier.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT_OF(signal_number) (UINT64_C(1) << ((signal_number)-1))

static void set_mask(uint64_t mask)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
}

uint64_t mf_mask_of_thread(void)
{
    uint64_t mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask);
    return mask;
}

void mf_mask_note_change(void)
{
    int error = errno;
    mr_fiber *fiber = mf_current;
    fiber->mask.blocked = mf_mask_of_thread();
    fiber->mask.is_own = fiber->mask.blocked != fiber->carrier->blocked_signals;
    errno = error;
}

/* A SIGPIPE that the fiber caused and wants to take with sigtimedwait must not meet another fiber, which does not block
 * it. */
static bool take_pending_sigpipe(const mr_fiber *fiber)
{
    uint64_t set = BIT_OF(SIGPIPE) & fiber->mask.blocked & ~fiber->carrier->blocked_signals;
    return set && syscall(SYS_rt_sigtimedwait, &set, NULL, &(struct timespec){0}, sizeof set) == SIGPIPE;
}

void mf_mask_put_off(mr_fiber *fiber)
{
    fiber->mask.has_sigpipe = take_pending_sigpipe(fiber);
    set_mask(fiber->carrier->blocked_signals);
}

void mf_mask_put_on(const mr_fiber *fiber)
{
    set_mask(fiber->mask.blocked);
    if (fiber->mask.has_sigpipe)
        syscall(SYS_tgkill, getpid(), fiber->carrier->thread_id, SIGPIPE);
}
