/*
 * descriptor.h: a loop's record of a descriptor: the handle that the loop has joined, and its operations in flight.
 *
 * Must not know: backends, system calls.
 */
#ifndef MILLRACE_DESCRIPTOR_H
#define MILLRACE_DESCRIPTOR_H

#include "millrace_check.h"
#include "slot.h"

/* The first 64 bytes have everything that each operation needs. */
typedef struct mr_descriptor {
    mr_slot *first[MR_DIRECTIONS]; /* operations in flight, oldest first */
    mr_slot *last[MR_DIRECTIONS];
    int number;
    uint32_t generation;                   /* of the handle that this loop has joined; 0: none */
    bool detaching;                        /* being closed: it takes no new operations; its last one releases it */
    bool may_have_deadline[MR_DIRECTIONS]; /* the handle had a deadline when this loop last read them */
    mr_backend_data backend_data;          /* zero when the descriptor was closed */
    mr_timer timers[MR_DIRECTIONS];        /* for the handle's deadlines; may be early, see mr_deadline_watch */
    const _Atomic uint64_t *deadlines_ns;  /* of the handle this loop has joined */
} mr_descriptor;

#define MR_DESCRIPTOR_CHUNK 256

/* Returns the record of a descriptor number, which it creates if there is none; NULL without memory. Call
 * mr_loop_descriptor (loop.h) instead. */
mr_descriptor *mr_descriptor_create(mr_loop *loop, int number);

/* Joins the handle, so that this loop may work on it. Returns 0 and the record, -EBADF or -ENOMEM. */
int mr_descriptor_use(mr_loop *loop, mr_handle handle, mr_descriptor **record);

/* The record of a handle that this loop has joined, or NULL. */
mr_descriptor *mr_descriptor_joined(mr_loop *loop, mr_handle handle);

/* A wait may name a descriptor by its number alone. If the descriptor is adopted, this puts its handle into the
 * request, so that a close ends the wait. Returns 0 or -EBADF. */
int mr_descriptor_resolve(mr_loop *loop, mr_request *request);

/* Clears the record, because the next descriptor with that number may differ. */
void mr_descriptor_forget(mr_descriptor *descriptor);

/* Records whether the handle has deadlines. Any thread may write those, so reading them may miss the cache. A thread
 * that sets the first one sends a message to the loops that have joined, so they need not read them before. */
void mr_descriptor_note_deadlines(mr_descriptor *descriptor);

static inline bool mr_descriptor_is_idle(const mr_descriptor *descriptor)
{
    return !descriptor->first[MR_READING] && !descriptor->first[MR_WRITING];
}

/* Appends an operation to the list of its direction. */
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
 * Operations of one direction take turns: a new one does not overtake those that wait. It does overtake waits for
 * readiness and operations on files, which take no bytes from it; and operations that back off or have yet to send:
 * they wait for no event, so no event would let the new one be tried again.
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
