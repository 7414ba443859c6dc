/* signal.c: the signal mask of a fiber, and signals that a fiber sends to itself. */
#include "signal_to_self.h"
#include "../carrier.h"
#include "../mask.h"
#include "../watch.h"
#include "libc.h"

#include <errno.h>
#include <sys/syscall.h>

MF_ALWAYS_LINKED(signal);

/* ----------------------------------------------------------------------------------------------------- the mask --- */

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

/* Changes the thread's mask: between mr_fiber_enter_thread and mr_fiber_leave_thread the carrier's, between vfork and
 * exec the child's. */
static int change_threads(int how, const sigset_t *set, sigset_t *before)
{
    int error = LIBC(pthread_sigmask)(how, set, before);
    if (set && !error && mf_this_carrier && mf_watch_is_own_process())
        mf_this_carrier->blocked_signals = mf_mask_of_thread();
    return error;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    return mf_watch_is_fiber() ? change_fibers(how, set, before) : change_threads(how, set, before);
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
    int error = pthread_sigmask(how, set, before);
    if (error)
        errno = error;
    return error ? -1 : 0;
}

/* ------------------------------------------------------------------------------------------------------ sending --- */

/* A call that sends a signal to a thread, here to the calling thread. */
typedef struct sending {
    int (*send)(const struct sending *s); /* 0 or an errno */
    int signal_number;
    union sigval value;
    long number; /* of a system call */
    const long *arguments;
} sending;

static bool is_signal(int number)
{
    return number > 0 && number <= 64;
}

/* Sends a signal to the running fiber. If the fiber allows it, it is handled before the call returns. If the fiber
 * blocks it, it is handled when the fiber allows it. */
static int send_to_oneself(const sending *s)
{
    sigset_t one, before;
    if (!is_signal(s->signal_number))
        return s->send(s);
    sigemptyset(&one);
    sigaddset(&one, s->signal_number);
    LIBC(pthread_sigmask)(SIG_BLOCK, &one, &before);
    int error = s->send(s);
    if (!error)
        mf_current->mask.awaited |= MF_MASK_BIT(s->signal_number);
    mf_mask_deliver_awaited();
    LIBC(pthread_sigmask)(SIG_SETMASK, &before, NULL);
    return error;
}

static int send_by_kill(const sending *s)
{
    return LIBC(pthread_kill)(pthread_self(), s->signal_number);
}

static int send_by_sigqueue(const sending *s)
{
    return LIBC(pthread_sigqueue)(pthread_self(), s->signal_number, s->value);
}

static int send_by_number(const sending *s)
{
    const long *a = s->arguments;
    return LIBC(syscall)(s->number, a[0], a[1], a[2], a[3]) < 0 ? errno : 0;
}

static int result_of(int error)
{
    if (error)
        errno = error;
    return error ? -1 : 0;
}

int raise(int signal_number)
{
    if (!mf_watch_is_fiber())
        return LIBC(raise)(signal_number);
    return result_of(send_to_oneself(&(sending){.send = send_by_kill, .signal_number = signal_number}));
}

int pthread_kill(pthread_t thread, int signal_number)
{
    if (!mf_watch_is_fiber() || !pthread_equal(thread, pthread_self()))
        return LIBC(pthread_kill)(thread, signal_number);
    return send_to_oneself(&(sending){.send = send_by_kill, .signal_number = signal_number});
}

int pthread_sigqueue(pthread_t thread, int signal_number, const union sigval value)
{
    if (!mf_watch_is_fiber() || !pthread_equal(thread, pthread_self()))
        return LIBC(pthread_sigqueue)(thread, signal_number, value);
    return send_to_oneself(&(sending){.send = send_by_sigqueue, .signal_number = signal_number, .value = value});
}

int tgkill(pid_t process, pid_t thread, int signal_number)
{
    const long arguments[MF_SIGNAL_ARGUMENTS] = {process, thread, signal_number};
    if (!mf_signal_is_to_oneself(SYS_tgkill, arguments))
        return LIBC(tgkill)(process, thread, signal_number);
    return mf_signal_send_by_number(SYS_tgkill, arguments);
}

/* ---------------------------------------------------------------------------------------------------- by number --- */

bool mf_signal_is_to_oneself(long number, const long *arguments)
{
    bool names_process = number == SYS_tgkill || number == SYS_rt_tgsigqueueinfo;
    if ((!names_process && number != SYS_tkill) || !mf_watch_is_fiber())
        return false;
    return (!names_process || arguments[0] == getpid()) && arguments[names_process] == mf_this_carrier->thread_id;
}

int mf_signal_send_by_number(long number, const long *arguments)
{
    int signal_number = (int)arguments[number == SYS_tkill ? 1 : 2];
    return result_of(send_to_oneself(
        &(sending){.send = send_by_number, .signal_number = signal_number, .number = number, .arguments = arguments}));
}
