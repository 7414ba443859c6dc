/*
 * acquire.h: how a fiber acquires a lock of libc's (a mutex, a read-write lock, a semaphore). Must not know: channels.
 *
 * The lock itself stays libc's: fibers acquire it by libc's `try` functions and release it by libc's own call, and OS
 * threads notice no difference. Only the waiting is ours. A fiber that finds the lock taken waits in the table of
 * waiters.h, by the lock's address, and the thread that releases the lock wakes it there. Code inside libc that
 * releases a lock (a thread in pthread_cond_wait) does not read that table; so a parked fiber also tries again after a
 * pause.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_ACQUIRE_H
#define MILLRACE_FIBER_INTERPOSE_ACQUIRE_H

#include "../report/report.h"
#include "../wait.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* One attempt at a lock: 0, EBUSY or EAGAIN (the lock is taken), or another error, which is final. */
typedef int (*mf_try)(void *lock);

static inline bool mf_is_taken(int error)
{
    return error == EBUSY || error == EAGAIN;
}

/* mf_acquire, after a first attempt that found the lock taken. */
int mf_acquire_taken(void *lock, mf_try try_lock, uint64_t deadline_ns, mf_interruptibility interruptibility);

/*
 * Acquires a lock; parks until that succeeds. Returns 0, ETIMEDOUT, the final error of `try_lock` or the error of an
 * interruption. A fiber that was interrupted does not try again: if it succeeded, the interruption would be lost.
 */
static inline int mf_acquire(void *lock, mf_try try_lock, uint64_t deadline_ns, mf_interruptibility interruptibility)
{
    int error = try_lock(lock);
    return mf_is_taken(error) ? mf_acquire_taken(lock, try_lock, deadline_ns, interruptibility) : error;
}

/* Wakes the first fiber, or all fibers, that wait at the address. Returns true if there was one. [any thread] */
bool mf_wake_one(const void *address);
bool mf_wake_all(const void *address);

/* Returns `error`. If the running fiber has acquired the lock, records the call site for reports: see
 * report/report.h. */
static inline int mf_note_taken(const void *lock, int error, const void *call_site)
{
    if (error == 0 || error == EOWNERDEAD)
        mf_held_note_lock(lock, call_site);
    return error;
}

/* Returns `error`. A fiber that tries again and again must let others run: see mf_consume_budget. */
int mf_note_tried(int error);

/* The address from which the interposed function was called. */
#define MF_CALL_SITE __builtin_return_address(0)

/* True if libc accepts this clock, and this point in time, in calls that wait for a lock. */
bool mf_is_lock_clock(clockid_t clock);
bool mf_is_lock_deadline(clockid_t clock, const struct timespec *until);

#endif
