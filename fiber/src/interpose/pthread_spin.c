/*
 * pthread_spin.c: pthread's spin locks. A fiber yields between two attempts: the owner may be a fiber of the same
 * carrier, which has to run before it can release the lock.
 */
#include "acquire.h"
#include "libc.h"

MF_ALWAYS_LINKED(pthread_spin);

int pthread_spin_lock(pthread_spinlock_t *lock)
{
    if (!mf_current)
        return LIBC(pthread_spin_lock)(lock);
    while (LIBC(pthread_spin_trylock)(lock) != 0)
        mr_fiber_yield();
    return 0;
}

int pthread_spin_trylock(pthread_spinlock_t *lock)
{
    return mf_current ? mf_note_tried(LIBC(pthread_spin_trylock)(lock)) : LIBC(pthread_spin_trylock)(lock);
}
