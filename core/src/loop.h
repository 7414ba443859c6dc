/*
 * loop.h: internal to the core: the record of a loop.
 *
 * The files of core/src decide what happens to an operation; except attempt.c and backends they make no system call on
 * a descriptor. A backend (backend.h) carries operations out. On POSIX, attempt.c tries one without blocking.
 */
#ifndef MILLRACE_LOOP_H
#define MILLRACE_LOOP_H

#include "descriptor.h"
#include "group.h"
#include "buffer.h"
#include "mailbox.h"
#include "millrace.h"
#include "pool.h"
#include "slot.h"
#include "slot_queue.h"
#include "timer.h"
#include "units.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The kind of record in which a timer is embedded. */
typedef enum mr_timer_owner {
    MR_TIMER_OF_SLOT,
    MR_TIMER_OF_TIMEOUT,
    MR_TIMER_OF_READING, /* timers[MR_READING] of a descriptor */
    MR_TIMER_OF_WRITING
} mr_timer_owner;

typedef struct mr_live_counters {
    _Atomic uint64_t operations, completions, parks, system_calls, waits, wake_ups, resubmissions;
} mr_live_counters;

struct mr_loop {
    mr_group *group;
    const struct mr_backend_operations *backend;
    void *backend_state;
    uint32_t index;

    mr_pool slots;
    mr_slot *free_slots;
    mr_pool timeouts;
    struct mr_timeout *free_timeouts;
    mr_descriptor **descriptor_chunks;
    uint32_t descriptor_chunk_count;

    mr_buffers buffers;
    mr_slot_queue completed;
    mr_slot_queue unsent; /* readiness.c: MR_SEND_THEN_RECEIVE operations that wait for the next poll to send */
    uint32_t unsent_count;
    mr_slot *submitting; /* the operation that mr_loop_submit is working on: if it ends now, it is MR_DONE */
    mr_timer_wheel wheel;

    uint64_t iteration_began_ns;          /* when the last poll ended; 0: the owner has waited since */
    uint64_t operations_before_iteration; /* submitted by then */
    bool iterations_are_slow;             /* so queued operations do not wait for the next poll */
    bool has_kept_timers_waiting;         /* completions filled the last poll before timers could fire */
    uint64_t wait_until_ns;               /* written before sleeping, read by the sleeper */
    int wake_descriptor;                  /* of backends that wake by one: see eventfd.h */
    int poll_descriptor;                  /* of backends that wait by epoll: see epoll_poller.h */
    atomic_bool sleeping;                 /* from prepare_wait to the next poll */
    atomic_bool woken;                    /* a wake that no poll has seen yet */
    mr_mailbox mailbox;
    uint32_t unchecked_polls; /* see mr_loop_check_after_poll */
    mr_live_counters counters;
};

/* Only the owner writes a counter, so no read-modify-write is needed; others may read it at any time. */
static inline void mr_count(_Atomic uint64_t *counter, uint64_t by)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + by, memory_order_relaxed);
}

/* mr_loop_cancel and mr_loop_update without reading the mailbox first, for messages. */
void mr_loop_cancel_here(mr_loop *loop, mr_token token);
void mr_loop_update_here(mr_loop *loop, mr_token token, uint64_t deadline_ns);

/*
 * While the owner sleeps nobody polls. So this submits queued operations, and wakes the owner if there is a completion
 * or if its sleep has become too long.
 */
void mr_loop_flush_for_sleeper(mr_loop *loop);

/* The time on the clock of the loop's group. */
static inline uint64_t mr_loop_now_ns(const mr_loop *loop)
{
    return loop->group->now_ns(loop->group);
}

/* The record of a descriptor number, or NULL without memory. Inline, because each request calls it several times. */
static inline mr_descriptor *mr_loop_descriptor(mr_loop *loop, int number)
{
    uint32_t chunk = (uint32_t)number / MR_DESCRIPTOR_CHUNK;
    mr_descriptor *records = chunk < loop->descriptor_chunk_count ? loop->descriptor_chunks[chunk] : NULL;
    return records ? &records[(uint32_t)number % MR_DESCRIPTOR_CHUNK] : mr_descriptor_create(loop, number);
}

#endif
