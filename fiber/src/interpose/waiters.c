/* waiters.c: the table of waiting fibers, by address. */
#include "waiters.h"
#include "../mask.h"
#include "fork.h"
#include "timespec.h"
#include "../check.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)

typedef struct bucket {
    mf_lock lock;
    atomic_uint count;
    mf_queue waiters; /* node->item is the address waited for */
} bucket;

static bucket buckets[MF_ADDRESS_BUCKETS];

size_t mf_address_bucket(const void *address)
{
    return ((uintptr_t)address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 56;
}
static_assert(MF_ADDRESS_BUCKETS == 1 << 8, "mf_address_bucket takes eight bits of the product");

static bucket *bucket_of(const void *address)
{
    return &buckets[mf_address_bucket(address)];
}

/* A waiter first writes that it waits and then reads the word. A waker first writes the word and then reads whether
 * anyone waits. With a full fence in between on both sides, at least one of them sees the other. */
static void fence_before_read(bucket *own)
{
#ifdef __SANITIZE_THREAD__
    atomic_fetch_add(&own->count, 0); /* TSan does not know fences */
#else
    (void)own;
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

void mf_waiter_enter(mf_waiter *waiter, const void *address, unsigned bits)
{
    bucket *own = bucket_of(address);
    mf_wait_init(&waiter->wait);
    waiter->bits = bits;
    waiter->node = (mf_node){.wait = &waiter->wait, .item = (void *)address};
    mf_lock_acquire(&own->lock);
    mf_queue_push(&own->waiters, &waiter->node);
    atomic_fetch_add(&own->count, 1);
    mf_lock_release(&own->lock);
    fence_before_read(own);
}

void mf_waiter_leave(mf_waiter *waiter)
{
    bucket *own = bucket_of(waiter->node.item);
    mf_lock_acquire(&own->lock);
    mf_queue_remove(&own->waiters, &waiter->node);
    MR_CHECK(atomic_fetch_sub(&own->count, 1) > 0);
    mf_lock_release(&own->lock);
}

int mf_waiter_park(mf_waiter *waiter, bool is_for_processes, uint64_t deadline_ns)
{
    if (!is_for_processes)
        return mf_wait_park(&waiter->wait, deadline_ns, MF_ROUSABLE);
    uint64_t pause_ns = mr_clock_now_ns() + MF_WAITER_PAUSE_MS * NS_PER_MS;
    int outcome = mf_wait_park(&waiter->wait, mf_earlier(deadline_ns, pause_ns), MF_ROUSABLE);
    return outcome == MF_DEADLINE_PASSED && !mf_has_passed(deadline_ns) ? 0 : outcome;
}

static bool is_meant(const mf_node *node, const void *address, unsigned bits)
{
    return node->item == address && (((const mf_waiter *)node)->bits & bits);
}

static unsigned wake_in(bucket *own, const void *address, unsigned most, unsigned bits)
{
    unsigned woken = 0;
    mf_lock_acquire(&own->lock);
    for (mf_node *node = own->waiters.first, *next; node && woken < most; node = next) {
        next = node->next;
        if (!is_meant(node, address, bits) || !mf_wait_claim(node->wait, 0))
            continue;
        mf_queue_remove(&own->waiters, node);
        mf_wait_wake(node->wait);
        woken++;
    }
    mf_lock_release(&own->lock);
    return woken;
}

/* A signal handler may call sem_post. The thread that it interrupts must not hold the bucket's lock, so signals are
 * blocked meanwhile. */
unsigned mf_waiters_wake(const void *address, unsigned most, unsigned bits)
{
    bucket *own = bucket_of(address);
    fence_before_read(own);
    if (atomic_load_explicit(&own->count, memory_order_relaxed) == 0)
        return 0;
    mf_mask_saved hold = mf_mask_block_all();
    unsigned woken = wake_in(own, address, most, bits);
    mf_mask_unblock(hold);
    return woken;
}

/* The waiting fibers do not exist in the child. */
void mf_waiters_forget_after_fork(void)
{
    memset(buckets, 0, sizeof buckets);
}
