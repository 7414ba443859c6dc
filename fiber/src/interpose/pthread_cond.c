/*
 * pthread_cond.c: pthread's condition variables. Fibers wait in the table of waiters.h, OS threads in libc's variable.
 */
#include "acquire.h"
#include "libc.h"
#include "pthread_mutex.h"
#include "timespec.h"
#include "waiters.h"

MF_ALWAYS_LINKED(pthread_cond);

/* The first bit of glibc's __wrefs says whether processes share the variable, the second which clock it uses
 * (pthread_cond_common.c). */
static bool is_shared(const pthread_cond_t *condition)
{
    return condition->__data.__wrefs & 1;
}

static clockid_t clock_of(const pthread_cond_t *condition)
{
    return condition->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/* The fiber enters the table before it releases the mutex. So a signal that is sent under the mutex, or later, finds
   it. */
static int wait_for_condition(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns,
                              const void *call_site)
{
    mf_waiter waiter;
    int before = errno;
    bool is_for_processes = is_shared(condition);
    mf_waiter_enter(&waiter, condition, MF_ANY_BITS);
    int error = pthread_mutex_unlock(mutex);
    if (error)
        mf_wait_claim_own(&waiter.wait, 0);
    int outcome = mf_waiter_park(&waiter, is_for_processes, deadline_ns);
    mf_waiter_leave(&waiter);
    if (error)
        return error;
    error = mf_mutex_lock(mutex, call_site);
    errno = before;
    if (error) /* of a robust mutex whose owner has died */
        return error;
    /* An interruption is a spurious wake-up here. It also ends the next interruptible wait. */
    return outcome == MF_DEADLINE_PASSED ? ETIMEDOUT : 0;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return mf_current ? wait_for_condition(condition, mutex, MR_NO_DEADLINE, MF_CALL_SITE)
                      : LIBC(pthread_cond_wait)(condition, mutex);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_deadline(CLOCK_REALTIME, until))
        return LIBC(pthread_cond_timedwait)(condition, mutex, until);
    return wait_for_condition(condition, mutex, mf_deadline_on(clock_of(condition), until), MF_CALL_SITE);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_deadline(clock, until))
        return LIBC(pthread_cond_clockwait)(condition, mutex, clock, until);
    return wait_for_condition(condition, mutex, mf_deadline_on(clock, until), MF_CALL_SITE);
}

/* POSIX: wakes "at least one" waiter. That is a fiber if one waits, otherwise an OS thread. */
int pthread_cond_signal(pthread_cond_t *condition)
{
    return mf_wake_one(condition) ? 0 : LIBC(pthread_cond_signal)(condition);
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
    mf_wake_all(condition);
    return LIBC(pthread_cond_broadcast)(condition);
}
