/*
 * pthread_mutex.c: pthread's mutexes. The mutex stays libc's (see acquire.h).
 *
 * libc identifies the owner of a mutex by its OS thread, and all fibers of a carrier share one. This is harmless for
 * plain mutexes, because a fiber stays on its carrier and may unlock there. A recursive or error-checking mutex asks
 * whether the caller is the owner; for these, ownership.h knows the fiber.
 */
#include "pthread_mutex.h"
#include "acquire.h"
#include "libc.h"
#include "ownership.h"
#include "timespec.h"

#include <limits.h>

MF_ALWAYS_LINKED(pthread_mutex);

/* glibc keeps the type in the low bits of __kind (pthreadP.h, PTHREAD_MUTEX_KIND_MASK_NP). */
static bool knows_its_owner(const pthread_mutex_t *mutex)
{
    int type = mutex->__data.__kind & 3;
    return type == PTHREAD_MUTEX_RECURSIVE_NP || type == PTHREAD_MUTEX_ERRORCHECK_NP;
}

/* When the owner of a robust mutex has died and the mutex was not made consistent, glibc writes NOT_RECOVERABLE in
 * place of the owner (pthreadP.h). trylock on such a mutex returns ENOTRECOVERABLE but keeps the mutex locked
 * (pthread_mutex_trylock.c), and the next caller would wait for ever. So such a mutex is not tried. */
static bool is_lost(const pthread_mutex_t *mutex)
{
    enum { ROBUST = 16, NOT_RECOVERABLE = INT_MAX - 1 };
    return (mutex->__data.__kind & ROBUST) &&
           __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == NOT_RECOVERABLE;
}

static int try_mutex(void *lock)
{
    pthread_mutex_t *mutex = lock;
    if (is_lost(mutex))
        return ENOTRECOVERABLE;
    if (!knows_its_owner(mutex))
        return LIBC(pthread_mutex_trylock)(mutex);
    if (mf_ownership_is_by_sibling(mutex))
        return EBUSY;
    int error = LIBC(pthread_mutex_trylock)(mutex);
    if (error == 0 || error == EOWNERDEAD) /* EOWNERDEAD: locked, but its last owner has died */
        mf_ownership_begin(mutex);
    return error;
}

/* Locking an error-checking mutex again returns EDEADLK. libc's trylock would return EBUSY. */
static bool is_own_errorcheck(const pthread_mutex_t *mutex)
{
    return (mutex->__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK_NP && mf_ownership_is_by_caller(mutex);
}

static int lock_mutex(pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    if (is_own_errorcheck(mutex))
        return EDEADLK;
    int before = errno;
    int error = mf_acquire(mutex, try_mutex, deadline_ns, MF_UNINTERRUPTIBLE);
    errno = before;
    return error;
}

/* A free lock is taken even when the deadline is invalid. EINVAL is returned only when the caller would have to wait,
 * as glibc does. */
static int lock_mutex_at_once(pthread_mutex_t *mutex)
{
    int error = is_own_errorcheck(mutex) ? EDEADLK : try_mutex(mutex);
    return mf_is_taken(error) ? EINVAL : error;
}

static int lock_mutex_until(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    return mf_is_lock_deadline(clock, until) ? lock_mutex(mutex, mf_deadline_on(clock, until))
                                             : lock_mutex_at_once(mutex);
}

int mf_mutex_lock(pthread_mutex_t *mutex, const void *call_site)
{
    return mf_note_taken(mutex, lock_mutex(mutex, MR_NO_DEADLINE), call_site);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return mf_current ? mf_mutex_lock(mutex, MF_CALL_SITE) : LIBC(pthread_mutex_lock)(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    return mf_current ? mf_note_tried(mf_note_taken(mutex, try_mutex(mutex), MF_CALL_SITE))
                      : LIBC(pthread_mutex_trylock)(mutex);
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until)
{
    return mf_current ? mf_note_taken(mutex, lock_mutex_until(mutex, CLOCK_REALTIME, until), MF_CALL_SITE)
                      : LIBC(pthread_mutex_timedlock)(mutex, until);
}

int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    if (!mf_current || !mf_is_lock_clock(clock))
        return LIBC(pthread_mutex_clocklock)(mutex, clock, until);
    return mf_note_taken(mutex, lock_mutex_until(mutex, clock, until), MF_CALL_SITE);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    bool on_fiber = mf_current != NULL;
    if (on_fiber && knows_its_owner(mutex)) {
        if (mf_ownership_is_by_sibling(mutex))
            return EPERM;
        mf_ownership_end(mutex);
    }
    if (on_fiber)
        mf_held_note_unlock(mutex);
    int error = LIBC(pthread_mutex_unlock)(mutex);
    if (error == 0)
        mf_wake_one(mutex);
    return error;
}

ALIAS(__pthread_mutex_lock, pthread_mutex_lock);

ALIAS(__pthread_mutex_trylock, pthread_mutex_trylock);

ALIAS(__pthread_mutex_unlock, pthread_mutex_unlock);
