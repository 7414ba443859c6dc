/* signal.c: the mask of signals, which is each fiber's own, and raising one. */
#include "../carrier.h"
#include "../mask.h"
#include "../watch.h"
#include "libc.h"

#include <errno.h>

/* 0 or EINVAL. */
static int change_fibers(int how, const sigset_t *set, sigset_t *before)
{
    uint64_t now = mf_mask_of_fiber(), wanted = set ? mf_mask_of_set(set) : 0;
    if (set && how != SIG_BLOCK && how != SIG_UNBLOCK && how != SIG_SETMASK)
        return EINVAL;
    if (before)
        mf_mask_to_set(now, before);
    if (set)
        mf_mask_change(how, wanted);
    return 0;
}

/* Between mr_fiber_enter_thread and mr_fiber_leave_thread the mask is the carrier's; between vfork and exec, the child's. */
static int change_threads(int how, const sigset_t *set, sigset_t *before)
{
    int error = LIBC(pthread_sigmask)(how, set, before);
    if (set && !error && mf_this_carrier && mf_watch_is_own_process())
        mf_this_carrier->blocked_signals = mf_mask_of_thread();
    return error;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    return mf_current && mf_watch_is_own_process() ? change_fibers(how, set, before)
                                                   : change_threads(how, set, before);
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
    int error = pthread_sigmask(how, set, before);
    if (error)
        errno = error;
    return error ? -1 : 0;
}

static bool is_signal(int number)
{
    return number > 0 && number <= 64;
}

/* By a fiber: what it lets in is handled before the call returns, what it blocks when it lets it in. */
static int send_to_oneself(int signal_number)
{
    sigset_t one, before;
    if (!is_signal(signal_number))
        return LIBC(pthread_kill)(pthread_self(), signal_number);
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    LIBC(pthread_sigmask)(SIG_BLOCK, &one, &before);
    int error = LIBC(pthread_kill)(pthread_self(), signal_number);
    if (!error)
        mf_current->mask.awaited |= MF_MASK_BIT(signal_number);
    mf_mask_let_in_awaited();
    LIBC(pthread_sigmask)(SIG_SETMASK, &before, NULL);
    return error;
}

int raise(int signal_number)
{
    if (!mf_current)
        return LIBC(raise)(signal_number);
    int error = send_to_oneself(signal_number);
    if (error)
        errno = error;
    return error ? -1 : 0;
}

int pthread_kill(pthread_t thread, int signal_number)
{
    return mf_current && pthread_equal(thread, pthread_self()) ? send_to_oneself(signal_number)
                                                               : LIBC(pthread_kill)(thread, signal_number);
}
