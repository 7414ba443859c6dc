/*
 * descriptor.h: what one loop knows of one descriptor: which handle it has joined, and which operations are in flight.
 *
 * Must not know: backends, system calls.
 */
#ifndef MILLRACE_DESCRIPTOR_H
#define MILLRACE_DESCRIPTOR_H

#include "millrace_check.h"
#include "slot.h"

/* What every operation needs comes first: 64 bytes. */
typedef struct mr_descriptor {
    mr_slot *first[MR_DIRECTIONS]; /* operations in flight, oldest first */
    mr_slot *last[MR_DIRECTIONS];
    int number;
    uint32_t generation;                   /* of the handle this loop has joined; 0: none */
    bool detaching;                        /* being closed: it takes no new operations; its last one releases it */
    bool may_have_deadline[MR_DIRECTIONS]; /* the handle had one when this loop last heard of it */
    mr_backend_part part;                  /* zero when the descriptor was closed */
    mr_timer timers[MR_DIRECTIONS];        /* for the handle's deadlines; may be early, see mr_deadline_watch */
    const _Atomic uint64_t *deadlines_ns;  /* of the handle this loop has joined */
} mr_descriptor;

#define MR_DESCRIPTOR_CHUNK 256

/* The record of a descriptor number that may have none yet, or NULL without memory. mr_loop_descriptor (loop.h) calls
   it. */
mr_descriptor *mr_descriptor_create(mr_loop *loop, int number);

/* Makes sure that this loop may work on a handle. 0 and the record, -EBADF or -ENOMEM. */
int mr_descriptor_use(mr_loop *loop, mr_handle handle, mr_descriptor **record);

/* The record of a handle that this loop has joined, or NULL. */
mr_descriptor *mr_descriptor_joined(mr_loop *loop, mr_handle handle);

/* A wait may name a descriptor by its number alone. If the number is that of a handle, the wait joins the handle, so
 * that a close ends it, on every loop. 0 or -EBADF. */
int mr_descriptor_find_own(mr_loop *loop, mr_request *request);

/* Clears what is known of a descriptor, because the next descriptor of that number may differ. */
void mr_descriptor_forget(mr_descriptor *descriptor);

/* The handle's deadlines are where every thread may write them, in no cache of ours: whether there are any is noted
 * here. A thread that sets one where none was tells the loops that have joined, so they need not look before. */
void mr_descriptor_note_deadlines(mr_descriptor *descriptor);

static inline bool mr_descriptor_is_idle(const mr_descriptor *descriptor)
{
    return !descriptor->first[MR_READING] && !descriptor->first[MR_WRITING];
}

/* Puts an operation behind the others of its direction. */
static inline void mr_descriptor_link(mr_descriptor *descriptor, mr_slot *slot)
{
    int direction = mr_direction_of(slot->request.kind);
    slot->descriptor = descriptor;
    slot->next = NULL;
    slot->previous = descriptor->last[direction];
    if (slot->previous)
        slot->previous->next = slot;
    else
        descriptor->first[direction] = slot;
    descriptor->last[direction] = slot;
}

static inline void mr_descriptor_unlink(mr_slot *slot)
{
    mr_descriptor *descriptor = slot->descriptor;
    int direction = mr_direction_of(slot->request.kind);
    MR_CHECK(slot->previous ? slot->previous->next == slot : descriptor->first[direction] == slot);
    if (slot->previous)
        slot->previous->next = slot->next;
    else
        descriptor->first[direction] = slot->next;
    if (slot->next)
        slot->next->previous = slot->previous;
    else
        descriptor->last[direction] = slot->previous;
    slot->descriptor = NULL;
}

/*
 * Operations of one direction take turns: a newcomer does not overtake those that wait. It does overtake those that wait for
 * readiness or for a file's disk, which take nothing; and those that back off or have yet to send: they wait for no event, and without an event
 * nobody would try the newcomer again.
 */
static inline bool mr_can_be_overtaken(const mr_slot *slot)
{
    return slot->state == MR_SLOT_BACKOFF || mr_has_trait(slot->request.kind, MR_IS_WAIT | MR_IS_ON_FILE) ||
           slot->request.kind == MR_SEND_THEN_RECEIVE;
}

static inline bool mr_has_turn(const mr_slot *slot)
{
    const mr_slot *first = slot->descriptor->first[mr_direction_of(slot->request.kind)];
    while (first != slot && mr_can_be_overtaken(first))
        first = first->next;
    return first == slot;
}

#endif
