/*
 * loop.h: the insides of a loop, for the files of core/ only.
 *
 * The files beside it decide what happens to an operation, each about one object; they never make a system call on a
 * descriptor themselves. A backend (backend.h) moves operations to completion. On POSIX attempt.c performs one without
 * blocking.
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

/* What a timer is embedded in. */
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
    bool iterations_are_slow;             /* what is queued does not wait for the next poll */
    bool has_kept_timers_waiting;         /* the last poll had no room for them */
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

/*
 * A backend reports what became of an operation. Returns true if that was the end of it (its slot is then no longer
 * the backend's), false if the backend must carry it out again: the rest of an MR_ALL, a connection that vanished from
 * the queue, or an attempt the kernel gave up because its thread ended. `result` is never -EAGAIN.
 */
bool mr_loop_settle(mr_loop *loop, mr_slot *slot, int64_t result);

/* Tries an operation without blocking, with a borrowed buffer if it needs one. -EAGAIN: it would block. */
int64_t mr_loop_attempt(mr_loop *loop, mr_slot *slot);

/* Attempts an operation until it has ended, or its result is held back (true), or it would block (false). */
bool mr_loop_try(mr_loop *loop, mr_slot *slot);

/* Is an operation attempted when it is submitted? It is not if it would overtake others, or if the backend knows that there
 * is nothing to be had. A caller that waits for a foreign descriptor and has just tried need not look again: watching it
 * reports what is there already. */
bool mr_is_tried_first(const mr_slot *slot, bool is_exhausted);

/* The end of an operation that was asked to end, and of which the system no longer knows. It is tried once more if its
 * deadline has passed: what arrived in time counts, even if nobody has looked yet. */
void mr_loop_conclude(mr_loop *loop, mr_slot *slot);

/* Performs an operation on the spot: MR_NOW, and what never waits. */
void mr_loop_perform_now(mr_loop *loop, mr_slot *slot);

/* The end of an operation: from here on its buffer is the caller's again. */
void mr_loop_finish(mr_loop *loop, mr_slot *slot, int64_t result);

/* Asks an operation to end with `reason`, or all those of one direction. The first reason stands. */
void mr_loop_end_operation(mr_loop *loop, mr_slot *slot, int reason);
void mr_loop_end_direction(mr_loop *loop, mr_descriptor *descriptor, int direction, int reason);

/* Puts a message into a loop's mailbox, and wakes the loop. [any thread] */
void mr_loop_post(mr_loop *loop, const mr_message *message);

/* Does what the messages in the mailbox ask for. */
void mr_loop_take_messages(mr_loop *loop);

/* What messages ask for. */
void mr_loop_cancel_here(mr_loop *loop, mr_token token);
void mr_loop_update_here(mr_loop *loop, mr_token token, uint64_t deadline_ns);
void mr_loop_act_on(mr_loop *loop, const mr_message *message);

/*
 * While the owner sleeps nobody polls: what was queued must be handed over here, and a sleep that has become too long,
 * or that leaves a completion lying, must end.
 */
void mr_loop_attend_sleeper(mr_loop *loop);

/* settle.c: ended by the kernel, which ends what a thread submitted when that thread exits; or by a signal. */
bool mr_was_interrupted(int64_t result);

/* In the child of a fork: frees the loop and this process's copies of what it holds in the kernel. */
void mr_loop_abandon(mr_loop *loop);

/* mr_loop_check, after a poll of a loop of a group that asks for it. */
void mr_loop_check_after_poll(mr_loop *loop);

/* The time on the clock of the loop's group. */
static inline uint64_t mr_loop_now_ns(const mr_loop *loop)
{
    return loop->group->now_ns(loop->group);
}

/* clock.c: nanoseconds from now until then; 0 if it has passed. */
uint64_t mr_clock_left_ns(uint64_t until_ns);

/* attempt.c: performs an operation without blocking. -EAGAIN: it would block, or has not finished. */
int64_t mr_attempt(mr_loop *loop, mr_slot *slot);

/* attempt.c: 0 or a negative errno; the number is free in either case. */
int mr_descriptor_close(mr_loop *loop, int number);

/* request.c: a request is complete in itself, or -EINVAL. */
int mr_check_request(const mr_request *request);

/* Whether the request names at least one byte of memory. */
bool mr_wants_bytes(const mr_request *request);

/* request.c: advances a transfer by what was moved. Returns true when nothing is left. */
bool mr_advance(mr_request *request, uint64_t transferred);

/* An error of attempt.c for a Unix socket whose listener's queue is full: nothing announces when to try again. */
#define MR_QUEUE_FULL 10001

/* The record of a descriptor number, or NULL without memory. Inline: a request calls it several times. */
static inline mr_descriptor *mr_loop_descriptor(mr_loop *loop, int number)
{
    uint32_t chunk = (uint32_t)number / MR_DESCRIPTOR_CHUNK;
    mr_descriptor *records = chunk < loop->descriptor_chunk_count ? loop->descriptor_chunks[chunk] : NULL;
    return records ? &records[(uint32_t)number % MR_DESCRIPTOR_CHUNK] : mr_descriptor_create(loop, number);
}

#endif
