/* mutex.c: a mutex owned by a fiber or an OS thread. Unlocking passes it directly to the longest waiter. */
#include "carrier.h"

#include <errno.h>
#include <stdlib.h>

struct mr_mutex {
    mf_lock lock;
    const void *owner; /* see myself; NULL: free */
    mf_queue waiters;
};

/* An address that differs from that of every other fiber and living thread. */
static const void *myself(void)
{
    static __thread char thread;
    return mf_current ? (const void *)mf_current : &thread;
}

int mr_mutex_create(mr_mutex **mutex)
{
    *mutex = calloc(1, sizeof **mutex);
    return *mutex ? 0 : -ENOMEM;
}

void mr_mutex_destroy(mr_mutex *mutex)
{
    free(mutex);
}

/* The lock is held. */
static int try_take(mr_mutex *mutex)
{
    if (mutex->owner)
        return mutex->owner == myself() ? -EDEADLK : -EAGAIN;
    mutex->owner = myself();
    return 0;
}

int mr_mutex_try_lock(mr_mutex *mutex)
{
    mf_lock_acquire(&mutex->lock);
    int error = try_take(mutex);
    mf_lock_release(&mutex->lock);
    return error == -EDEADLK ? -EAGAIN : error;
}

int mr_mutex_lock(mr_mutex *mutex, uint64_t deadline_ns)
{
    mf_wait wait;
    mf_wait_init(&wait);
    mf_node node = {.wait = &wait, .item = (void *)myself()};
    mf_lock_acquire(&mutex->lock);
    int error = try_take(mutex);
    if (error == -EAGAIN)
        mf_queue_push(&mutex->waiters, &node);
    mf_lock_release(&mutex->lock);
    if (error != -EAGAIN)
        return error;
    int outcome = mf_wait_park(&wait, deadline_ns, MF_UNINTERRUPTIBLE);
    if (outcome < 0) {
        mf_lock_acquire(&mutex->lock);
        mf_queue_remove(&mutex->waiters, &node);
        mf_lock_release(&mutex->lock);
    }
    return mf_wait_result(outcome);
}

int mr_mutex_unlock(mr_mutex *mutex)
{
    mf_lock_acquire(&mutex->lock);
    int error = mutex->owner == myself() ? 0 : -EPERM;
    if (!error) {
        mf_node *next = mf_queue_claim(&mutex->waiters);
        mutex->owner = next ? next->item : NULL;
        if (next)
            mf_wait_wake(next->wait);
    }
    mf_lock_release(&mutex->lock);
    return error;
}
