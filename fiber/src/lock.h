/*
 * lock.h: a lock for critical sections of a few instructions, on fibers and OS threads.
 *
 * Not a pthread mutex: those are interposed. Nothing may park or switch while holding it.
 */
#ifndef MILLRACE_FIBER_LOCK_H
#define MILLRACE_FIBER_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct mf_lock {
    atomic_uint state; /* 0 free, 1 held, 2 held and perhaps waited for (Drepper, "Futexes Are Tricky", mutex 3) */
} mf_lock;

void mf_lock_wait(mf_lock *lock);
void mf_lock_wake(mf_lock *lock);

static inline void mf_lock_acquire(mf_lock *lock)
{
    unsigned expected = 0;
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        mf_lock_wait(lock);
}

static inline void mf_lock_release(mf_lock *lock)
{
    if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
        mf_lock_wake(lock);
}

#endif
