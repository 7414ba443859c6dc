/* mask.c: a fiber's signal mask, which is its thread's mask while the fiber runs. Must not know: channels. */
#include "mask.h"
#include "carrier.h"
#include "interpose/libc.h"
#include "interpose/proc.h"
#include "watch.h"

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

/* Removes one pending signal of the set, first those for this thread and then those for the process. Returns its number
 * or -1. */
static int consume_any(uint64_t set, siginfo_t *info)
{
    return (int)syscall(SYS_rt_sigtimedwait, &set, info, &(struct timespec){0}, sizeof set);
}

bool mf_mask_consume(int signal_number)
{
    return consume_any(MF_MASK_BIT(signal_number), NULL) == signal_number;
}

/* Makes the signal pending for this thread, with its information. */
static void requeue(siginfo_t *info)
{
    LIBC(syscall)(SYS_rt_tgsigqueueinfo, getpid(), mf_this_carrier->thread_id, info->si_signo, info);
}

mf_mask_saved mf_mask_block_all(void)
{
    bool holds = !mf_this_carrier || (mf_current && mf_current->mask.is_own);
    return (mf_mask_saved){.holds = holds, .before = holds ? mf_mask_set(UINT64_MAX) : 0};
}

void mf_mask_unblock(mf_mask_saved hold)
{
    if (hold.holds)
        mf_mask_set(hold.before);
}

/* The kernel never blocks SIGKILL and SIGSTOP, and glibc reserves two signals (internal-signals.h). */
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

/* Sets the fiber's requests while a handler runs. If the handler leaves by a jump, they stay, as the mask does in the
 * kernel. A handler that waits blocks more than its carrier does. */
static void note_handler(mf_mask *mask, int signal_number)
{
    struct sigaction action;
    sigaction(signal_number, NULL, &action);
    uint64_t own = action.sa_flags & SA_NODEFER ? 0 : MF_MASK_BIT(signal_number);
    note_request(mask, SIG_BLOCK, (mf_mask_of_set(&action.sa_mask) | own) & ~NEVER_BLOCKED);
    mask->is_own = true;
}

static void note_end_of_handler(mf_mask *mask, const mf_mask *before)
{
    mask->added = before->added;
    mask->removed = before->removed;
    mask->is_own = before->is_own;
}

static void deliver(mf_mask *mask, int signal_number)
{
    mf_mask before = *mask;
    uint64_t bit = MF_MASK_BIT(signal_number), in_force = mf_mask_of_thread();
    note_handler(mask, signal_number);
    mf_mask_set(in_force & ~bit);
    mf_mask_set(in_force);
    mask->awaited &= ~bit; /* not earlier, because several may be queued, and the handler of the first may wait */
    note_end_of_handler(mask, &before);
}

void mf_mask_deliver_awaited(void)
{
    mf_mask *mask = &mf_current->mask;
    uint64_t now;
    while ((now = mask->awaited & ~mf_mask_of_fiber()))
        deliver(mask, __builtin_ctzll(now) + 1);
}

/* Delivers the signals that the fiber has sent to itself, although the carrier blocks them. It delivers nothing
 * else, because signals pending for the process belong to the program's own threads. */
static void put_in_force(mr_fiber *fiber)
{
    uint64_t carriers = fiber->carrier->blocked_signals;
    uint64_t blocked = (carriers | fiber->mask.added) & ~fiber->mask.removed;
    mf_mask_deliver_awaited();
    fiber->mask.is_own = blocked != carriers;
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

/* ---------------------------------------------------------------------------------------- the mask of one wait --- */

/* A mask that leaves a signal out asks for it. The fiber receives it only if some thread blocks it, or if the fiber
 * allowed it before. Otherwise the signal belongs to the program's own threads. */
mf_mask_of_wait mf_mask_begin_wait(const sigset_t *set)
{
    mf_mask_of_wait wait = {0};
    if (!set || !mf_watch_is_fiber())
        return wait;
    mf_mask *mask = &mf_current->mask;
    uint64_t programs = mf_carrier_programs_mask(), wanted = mf_mask_of_set(set) & ~NEVER_BLOCKED;
    wait.allows = (programs | mask->added | mask->removed) & ~wanted & ~NEVER_BLOCKED;
    wait.holds = wait.allows || mask->removed;
    if (!wait.holds)
        return wait;
    wait.was_own = mask->is_own;
    wait.added = mask->added;
    wait.removed = mask->removed;
    mask->is_own = true;
    mask->added = wanted & ~programs;
    mask->removed = wait.allows;
    wait.before = mf_mask_set(mf_current->carrier->blocked_signals | wanted | wait.allows);
    return wait;
}

static uint64_t pending_for_wait(const mf_mask_of_wait *wait)
{
    uint64_t pending = 0;
    if (wait->allows)
        syscall(SYS_rt_sigpending, &pending, sizeof pending);
    return pending & wait->allows;
}

bool mf_mask_is_pending(const mf_mask_of_wait *wait)
{
    return pending_for_wait(wait);
}

/* Delivers one signal by ppoll, even if more are queued. Returns true if a handler has run. */
static bool deliver_once(mf_mask *mask, int signal_number)
{
    sigset_t set;
    mf_mask before = *mask;
    mf_mask_to_set(mf_mask_of_thread() & ~MF_MASK_BIT(signal_number), &set);
    note_handler(mask, signal_number);
    bool has_handled = LIBC(ppoll)(NULL, 0, &(struct timespec){0}, &set) < 0;
    note_end_of_handler(mask, &before);
    return has_handled;
}

mf_mask_outcome mf_mask_handle(const mf_mask_of_wait *wait)
{
    int error = errno;
    uint64_t pending = pending_for_wait(wait);
    mf_mask_outcome came = pending ? MF_MASK_WITHOUT_HANDLER : MF_MASK_NOTHING;
    for (uint64_t left = pending; left; left &= left - 1)
        if (deliver_once(&mf_current->mask, __builtin_ctzll(left) + 1))
            came = MF_MASK_HANDLED;
    mf_current->mask.awaited &= ~pending | pending_for_wait(wait);
    errno = error;
    return came;
}

void mf_mask_end_wait(const mf_mask_of_wait *wait)
{
    int error = errno;
    if (!wait->holds)
        return;
    mf_current->mask.added = wait->added;
    mf_current->mask.removed = wait->removed;
    mf_mask_deliver_awaited();
    mf_current->mask.is_own = wait->was_own;
    mf_mask_set(wait->before);
    errno = error;
}

/* ---------------------------------------------------------------------------------------------- around a switch --- */

/* A SIGPIPE that the fiber caused and will fetch with sigtimedwait must not reach another fiber that does not block
 * it. */
static bool take_pending_sigpipe(const mr_fiber *fiber)
{
    return (MF_MASK_BIT(SIGPIPE) & fiber->mask.blocked & ~fiber->carrier->blocked_signals) && mf_mask_consume(SIGPIPE);
}

/* The signals pending for this thread alone; without /proc, also those pending for the process. */
static uint64_t pending_for_thread(void)
{
    uint64_t pending = 0;
    if (!mf_proc_number("/proc/thread-self/status", "SigPnd:", 16, &pending))
        syscall(SYS_rt_sigpending, &pending, sizeof pending);
    return pending;
}

/* Moves the awaited signals to `kept`. The program may have fetched some itself; those are no longer awaited. */
static void take_awaited(mf_mask *mask, mf_pending_signals *kept)
{
    uint64_t now, taken = 0;
    while ((now = mask->awaited & pending_for_thread()) && kept->count < MF_PENDING_SIGNALS_MAX) {
        int signal_number = consume_any(now, &kept->signals[kept->count]);
        if (signal_number < 0)
            break;
        taken |= MF_MASK_BIT(signal_number);
        kept->count++;
    }
    mask->awaited = taken | now;
}

/* A handler that waits also blocks its own signals, which only the kernel knows. No handler may run between these
 * steps: it might wait, and the fiber would enter this function a second time. */
void mf_mask_suspend(mr_fiber *fiber, mf_pending_signals *kept)
{
    fiber->mask.blocked = mf_mask_set(UINT64_MAX);
    if (kept)
        take_awaited(&fiber->mask, kept);
    fiber->mask.has_sigpipe = take_pending_sigpipe(fiber);
    mf_mask_set(fiber->carrier->blocked_signals);
}

void mf_mask_resume(mr_fiber *fiber, mf_pending_signals *kept)
{
    unsigned count = kept ? kept->count : 0;
    if (count || fiber->mask.has_sigpipe)
        mf_mask_set(UINT64_MAX);
    for (unsigned i = 0; i < count; i++)
        requeue(&kept->signals[i]);
    if (fiber->mask.has_sigpipe)
        LIBC(syscall)(SYS_tgkill, getpid(), fiber->carrier->thread_id, SIGPIPE);
    mf_mask_set(fiber->mask.blocked);
}
