/*
 * loop.h: the insides of a loop, for the files of core/ only.
 *
 * loop.c is policy: slots, deadlines, closing, completions; it never makes a system call on a descriptor itself.
 * A backend (backend.h) is mechanism: it moves operations to completion. On POSIX attempt.c performs one without
 * blocking.
 */
#ifndef MILLRACE_LOOP_H
#define MILLRACE_LOOP_H

#include "handle.h"
#include "lending.h"
#include "mailbox.h"
#include "millrace.h"
#include "operation.h"
#include "pool.h"
#include "timer.h"
#include "units.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What a timer is embedded in. */
typedef enum mr_timer_owner {
    MR_TIMER_OF_SLOT,
    MR_TIMER_OF_ALARM,
    MR_TIMER_OF_READING, /* timers[MR_READING] of a descriptor */
    MR_TIMER_OF_WRITING
} mr_timer_owner;

/* The life of a slot. */
typedef enum mr_slot_state {
    MR_SLOT_FREE,
    MR_SLOT_RESERVED,
    MR_SLOT_PENDING,   /* the backend has it, or its timer */
    MR_SLOT_BACKOFF,   /* waiting for its timer before the backend gets it again */
    MR_SLOT_COMPLETED, /* on the list of completions */
    MR_SLOT_DELIVERED  /* polled; the token is not released yet */
} mr_slot_state;

typedef struct mr_slot {
    mr_timer timer; /* first: a timer that fires is cast back to its slot */
    struct mr_slot *next;
    struct mr_slot *previous; /* neighbours among the operations of one direction of a descriptor */
    struct mr_slot *queued;   /* successor on the free list, the list of completions, or the backend's own queue */
    struct mr_descriptor *descriptor;
    mr_request request;
    mr_token token;
    int64_t result;
    uint64_t transferred;
    mr_buffer *lent;      /* MR_BORROW: once bytes are in it */
    void *backend_memory; /* what a backend needs until the operation has ended; freed then */
    int end_reason;       /* 0, or the error that the operation was asked to end with */
    uint16_t backoff_ms;
    uint8_t state;
    uint8_t attempts; /* CONNECT: has it been begun? */
    bool awaits_room; /* io_uring: a send that found none */
    uint8_t backlog;  /* io_uring: what waits for room in the ring, see io_uring.c; simulated: see sim.c */
} mr_slot;

/* What one loop knows of one descriptor. What every operation needs comes first: 64 bytes. */
typedef struct mr_descriptor {
    mr_slot *first[MR_DIRECTIONS]; /* operations in flight, oldest first */
    mr_slot *last[MR_DIRECTIONS];
    int number;
    uint32_t generation; /* of the handle this loop has joined; 0: none */
    bool detaching;      /* being closed: no new operations, and the last to end lets go */
    bool is_watched;     /* readiness: edges of this descriptor arrive at this loop; IOCP: completions */
    /* io_uring: its edges arrive past the ring; only while this loop has a handle */
    bool is_watched_for[MR_DIRECTIONS];
    bool is_others;                        /* IOCP: it belongs to another loop's port */
    bool is_one_shot;                      /* readiness: one report is armed, for operations on a foreign descriptor */
    bool is_tcp;                           /* readiness: see note_transfer */
    bool may_hide_data;                    /* readiness: the end of the stream or urgent data is near */
    bool exhausted[MR_DIRECTIONS];         /* readiness: nothing to be had until the next edge */
    bool is_shut;                          /* readiness: for receiving, and no TCP socket: see mr_when_shut */
    uint8_t unused_reports;                /* readiness: since the last operation began */
    bool drained;                          /* io_uring: the last receive emptied the socket */
    bool has_positions;                    /* io_uring: it is known to be a file of which parts can be read */
    bool may_have_deadline[MR_DIRECTIONS]; /* the handle had one when this loop last heard of it */
    mr_timer timers[MR_DIRECTIONS];        /* for the handle's deadlines; may be early, see watch_deadline */
    const _Atomic uint64_t *deadlines_ns;  /* of the handle this loop has joined */
} mr_descriptor;

#define MR_DESCRIPTOR_CHUNK 256

/* What time it is, in nanoseconds, for the loops of a group. */
typedef uint64_t mr_group_clock(const mr_group *group);

struct mr_group {
    mr_handle_table handles;
    /* of the tokens of its loops; no other group in this process has had it, nor had this one before a fork */
    uint32_t epoch;
    const struct mr_backend_operations *backend;
    mr_backend backend_id;
    struct mr_machine *machine; /* simulated: what the loops work on */
    mr_group_clock *now_ns;
    bool owners_are_fixed; /* see mr_group_create_with_owned_loops */
    atomic_uint loop_count;
    _Atomic(mr_loop *) loops[MR_LOOPS_MAX];
};

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
    mr_pool alarms;
    struct mr_alarm *free_alarms;
    mr_descriptor **descriptor_chunks;
    uint32_t descriptor_chunk_count;

    mr_lender lender;
    mr_slot *completed_first;
    mr_slot *completed_last;
    mr_slot *unsent_first; /* readiness.c: MR_SEND_THEN_RECEIVE operations that wait for the next poll to send */
    mr_slot *unsent_last;
    uint32_t unsent_count;
    mr_slot *submitting; /* the operation that mr_loop_submit is working on: if it ends now, it is MR_DONE */
    mr_timer_wheel wheel;

    uint64_t turn_began_ns;          /* when the last poll ended; 0: the owner has waited since */
    uint64_t operations_before_turn; /* submitted by then */
    bool turns_are_slow;             /* what is queued does not wait for the next poll */
    bool has_kept_timers_waiting;    /* the last poll had no room for them */
    uint64_t wait_until_ns;          /* written before sleeping, read by the sleeper */
    int wake_descriptor;             /* of backends that wake by one: see eventfd.h */
    atomic_bool sleeping;            /* from prepare_wait to the next poll */
    atomic_bool woken;               /* a wake that no poll has seen yet */
    mr_mailbox mailbox;
    mr_live_counters counters;
};

/* Only the owner writes a counter, so no read-modify-write is needed; others may read it at any time. */
static inline void mr_count(_Atomic uint64_t *counter, uint64_t by)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + by, memory_order_relaxed);
}

/* How much of a file one attempt moves: the caller may have to wait for it. */
#define MR_FILE_BYTES_MAX (UINT64_C(1) << 20)

static inline size_t mr_file_bytes(const mr_request *request)
{
    return (size_t)(request->length < MR_FILE_BYTES_MAX ? request->length : MR_FILE_BYTES_MAX);
}

static inline int mr_slot_number(const mr_slot *slot)
{
    return mr_handle_descriptor(slot->request.handle);
}

/* MR_SEND_THEN_RECEIVE: what it sends. Once that is done it becomes a receive. */
static inline void *mr_send_then_receive_bytes(const mr_request *request)
{
    return ((mr_buffer *)request->buffer)->bytes + request->offset;
}

/*
 * Operations of one direction take turns: a newcomer does not overtake those that wait. It does overtake those that wait for
 * readiness, which take nothing; and those that back off or have yet to send: they wait for no event, and without an event
 * nobody would try the newcomer again.
 */
static inline bool mr_can_be_overtaken(const mr_slot *slot)
{
    return slot->state == MR_SLOT_BACKOFF || mr_is_wait(slot->request.kind) ||
           slot->request.kind == MR_SEND_THEN_RECEIVE;
}

static inline bool mr_has_turn(const mr_slot *slot)
{
    const mr_slot *first = slot->descriptor->first[mr_direction_of(slot->request.kind)];
    while (first != slot && mr_can_be_overtaken(first))
        first = first->next;
    return first == slot;
}

/* The slot of a token, or NULL if it is stale. */
mr_slot *mr_loop_find(mr_loop *loop, mr_token token);

/* The record of a descriptor number, or NULL without memory. */
mr_descriptor *mr_loop_descriptor(mr_loop *loop, int number);

/*
 * A backend reports what became of an operation. Returns true if that was the end of it (its slot is then no longer
 * the backend's), false if the backend must carry it out again: the rest of an MR_ALL, a connection that vanished from
 * the queue, or an attempt the kernel gave up because its thread ended. `result` is never -EAGAIN.
 */
bool mr_loop_settle(mr_loop *loop, mr_slot *slot, int64_t result);

/* Tries an operation without blocking, with a lent buffer if it needs one. -EAGAIN: it would block. */
int64_t mr_loop_attempt(mr_loop *loop, mr_slot *slot);

/* Tries the first half of an MR_SEND_THEN_RECEIVE at once. False if the operation has ended by that. */
bool mr_loop_send_first(mr_loop *loop, mr_slot *slot);

/* The end of an operation: from here on its buffer is the caller's again. */
void mr_loop_finish(mr_loop *loop, mr_slot *slot, int64_t result);

/* Asks an operation to end with `reason`, or all those of one direction. The first reason stands. */
void mr_loop_end_operation(mr_loop *loop, mr_slot *slot, int reason);
void mr_loop_end_direction(mr_loop *loop, mr_descriptor *descriptor, int direction, int reason);

/* Its deadline has passed: is it tried once more before it ends? What arrived in time counts, even if its report lies
 * behind others still. Whose turn it is not would take what is another's. */
bool mr_loop_is_tried_last(const mr_slot *slot);

/* What was known of a descriptor may not hold for the next one of that number. */
void mr_descriptor_forget(mr_descriptor *descriptor);

/* Puts a letter into a loop's mailbox, and wakes it. [any thread] */
void mr_loop_post(mr_loop *loop, const mr_letter *letter);

/* Does what the letters say that have come. */
void mr_loop_open_letters(mr_loop *loop);

/* The loops of a set (see mr_handle_begin_close) but for one. Returns how many. */
unsigned mr_group_other_loops(mr_group *group, uint64_t joined, const mr_loop *except, mr_loop *others[MR_LOOPS_MAX]);

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

/* request.c: advances a transfer by what was moved. Returns true when nothing is left. */
bool mr_advance(mr_request *request, uint64_t transferred);

/* An error of attempt.c for a Unix socket whose listener's queue is full: nothing announces when to try again. */
#define MR_QUEUE_FULL 10001

#endif
