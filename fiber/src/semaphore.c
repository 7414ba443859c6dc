/* semaphore.c: semaphores. A post goes directly to the longest waiter. */
#include "wait.h"

#include <errno.h>
#include <stdlib.h>

struct mr_semaphore {
    mf_lock lock;
    unsigned count;
    mf_queue waiters;
};

int mr_semaphore_create(mr_semaphore **semaphore, unsigned count)
{
    *semaphore = calloc(1, sizeof **semaphore);
    if (!*semaphore)
        return -ENOMEM;
    (*semaphore)->count = count;
    return 0;
}

void mr_semaphore_destroy(mr_semaphore *semaphore)
{
    free(semaphore);
}

void mr_semaphore_post(mr_semaphore *semaphore)
{
    mf_lock_acquire(&semaphore->lock);
    mf_node *waiter = mf_queue_claim(&semaphore->waiters);
    if (!waiter)
        semaphore->count++;
    mf_lock_release(&semaphore->lock);
    /* This comes last, because the woken waiter may destroy the semaphore. */
    if (waiter)
        mf_wait_wake(waiter->wait);
}

/* Decreases the counter, or queues the node (NULL: none). */
static int take(mr_semaphore *semaphore, mf_node *node)
{
    int error = 0;
    mf_lock_acquire(&semaphore->lock);
    if (semaphore->count)
        semaphore->count--;
    else
        error = -EAGAIN;
    if (error && node)
        mf_queue_push(&semaphore->waiters, node);
    mf_lock_release(&semaphore->lock);
    return error;
}

int mr_semaphore_try_wait(mr_semaphore *semaphore)
{
    return take(semaphore, NULL);
}

int mr_semaphore_wait(mr_semaphore *semaphore, uint64_t deadline_ns)
{
    mf_wait wait;
    mf_wait_init(&wait);
    mf_node node = {.wait = &wait};
    if (take(semaphore, &node) == 0)
        return 0;
    int outcome = mf_wait_park(&wait, deadline_ns, MF_INTERRUPTIBLE);
    if (outcome < 0) {
        mf_lock_acquire(&semaphore->lock);
        mf_queue_remove(&semaphore->waiters, &node);
        mf_lock_release(&semaphore->lock);
    }
    return mf_wait_result(outcome);
}
