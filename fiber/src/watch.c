/*
 * watch.c: the waits for each descriptor, so that closing a descriptor can end them.
 *
 * The kernel does not report a close: epoll silently forgets a closed descriptor, and a poll of io_uring keeps the file
 * open. Continuing to wait would be worse than an error, because the number may soon mean another file.
 */
#include "watch.h"
#include "carrier.h"
#include "check.h"
#include "mask.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Many, so that two descriptors seldom share a bucket. Adding a watch writes to adjacent ones, which lie on the stacks
 * of parked fibers and may not be in the cache. */
enum { BUCKETS = 4096 };

typedef struct bucket {
    mf_lock lock;
    atomic_uint count; /* of watches that have begun and not ended */
    mf_queue watches;
} bucket;

static bucket buckets[BUCKETS];
static pid_t process;
static atomic_uint closes;

static bucket *bucket_of(int descriptor)
{
    return &buckets[(unsigned)descriptor % BUCKETS];
}

static mf_watch *watch_of(mf_node *node)
{
    return (mf_watch *)((char *)node - offsetof(mf_watch, node));
}

static void register_watch(mf_watch *watch, mf_wait *wait, int outcome, int descriptor)
{
    bucket *own = bucket_of(descriptor);
    watch->descriptor = descriptor;
    watch->node = (mf_node){.wait = wait, .outcome = outcome};
    mf_lock_acquire(&own->lock);
    atomic_fetch_add(&own->count, 1);
    mf_queue_push(&own->watches, &watch->node);
    mf_lock_release(&own->lock);
}

void mf_watch_begin(mf_watch *watch, mf_wait *wait, int outcome, int descriptor, mr_kind kind, uint32_t flags)
{
    register_watch(watch, wait, outcome, descriptor);
    mr_request request = {.kind = kind, .flags = flags, .handle = mr_handle_foreign(descriptor)};
    mf_operation_start(&watch->operation, wait, outcome, &request);
}

void mf_watch_begin_for_close(mf_watch *watch, mf_wait *wait, int outcome, int descriptor)
{
    watch->operation = (mf_operation){0};
    register_watch(watch, wait, outcome, descriptor);
}

void mf_watch_cancel(mf_watch *watch)
{
    mf_operation_cancel(&watch->operation);
}

int mf_watch_end(mf_watch *watch)
{
    bucket *own = bucket_of(watch->descriptor);
    mf_lock_acquire(&own->lock);
    mf_queue_remove(&own->watches, &watch->node);
    MR_CHECK(atomic_fetch_sub(&own->count, 1) > 0);
    mf_lock_release(&own->lock);
    bool was_pending = watch->operation.pending || watch->operation.cancelled;
    mf_operation_end(&watch->operation);
    return was_pending || watch->node.result ? watch->node.result : (int)watch->operation.result;
}

int mf_watch_wait(int descriptor, mr_kind kind, uint64_t deadline_ns)
{
    mf_wait wait;
    mf_watch watch;
    mf_wait_init(&wait);
    mf_watch_begin(&watch, &wait, 0, descriptor, kind, MR_TRIED);
    int outcome = mf_wait_park(&wait, deadline_ns, MF_INTERRUPTIBLE);
    int result = mf_watch_end(&watch);
    if (outcome < 0)
        return outcome;
    return result == MF_WATCH_REPLACED ? 0 : result;
}

bool mf_watch_is_own_process(void)
{
    return getpid() == process;
}

bool mf_watch_is_fiber(void)
{
    return mf_current && mf_watch_is_own_process();
}

static void end_watches_in(bucket *own, int first, int last, int result)
{
    mf_lock_acquire(&own->lock);
    for (mf_node *node = own->watches.first, *next; node; node = next) {
        next = node->next;
        int descriptor = watch_of(node)->descriptor;
        if (descriptor < first || descriptor > last || !mf_watch_is_own_process() ||
            !mf_wait_claim(node->wait, node->outcome))
            continue;
        mf_queue_remove(&own->watches, node);
        node->result = result;
        mf_wait_wake(node->wait);
    }
    mf_lock_release(&own->lock);
}

/* A watch that begins after this test waits for the new file of the number, or mf_watch_note_closed ends it. Signals
 * are blocked because a handler may call close, and the thread that it interrupts must not hold the bucket's lock. */
static void end_watches(bucket *own, int first, int last, int result)
{
    if (atomic_load(&own->count) == 0)
        return;
    mf_mask_saved hold = mf_mask_block_all();
    end_watches_in(own, first, last, result);
    mf_mask_unblock(hold);
}

unsigned mf_watch_closes(void)
{
    return atomic_load_explicit(&closes, memory_order_relaxed);
}

static void end_all_watches(int first, int last, int result)
{
    atomic_fetch_add_explicit(&closes, 1, memory_order_relaxed);
    if (first == last) {
        end_watches(bucket_of(first), first, last, result);
        return;
    }
    for (int i = 0; i < BUCKETS; i++)
        end_watches(&buckets[i], first, last, result);
}

void mf_watch_note_close(int first, int last)
{
    end_all_watches(first, last, -EBADF);
}

void mf_watch_note_closed(int first, int last)
{
    end_all_watches(first, last, MF_WATCH_REPLACED);
}

void mf_watch_start(void)
{
    memset(buckets, 0, sizeof buckets);
    process = getpid();
}
