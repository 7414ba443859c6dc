/* slot_queue.h: a queue of slots, linked by `queued`. A slot is in one queue at a time. Must not know: loops,
   backends. */
#ifndef MILLRACE_SLOT_QUEUE_H
#define MILLRACE_SLOT_QUEUE_H

#include "millrace_check.h"
#include "slot.h"

/* Empty when it is zero. */
typedef struct mr_slot_queue {
    mr_slot *first;
    mr_slot *last;
} mr_slot_queue;

static inline void mr_slot_queue_push(mr_slot_queue *queue, mr_slot *slot)
{
    slot->queued = NULL;
    if (queue->last)
        queue->last->queued = slot;
    else
        queue->first = slot;
    queue->last = slot;
}

/* Removes the first slot; NULL if the queue is empty. */
static inline mr_slot *mr_slot_queue_pop(mr_slot_queue *queue)
{
    mr_slot *slot = queue->first;
    if (!slot)
        return NULL;
    queue->first = slot->queued;
    if (!queue->first)
        queue->last = NULL;
    return slot;
}

/* Removes a slot that is in the queue. O(n). */
static inline void mr_slot_queue_remove(mr_slot_queue *queue, mr_slot *slot)
{
    mr_slot *before = NULL;
    for (mr_slot *each = queue->first; each != slot; each = each->queued) {
        MR_CHECK(each);
        before = each;
    }
    if (before)
        before->queued = slot->queued;
    else
        queue->first = slot->queued;
    if (queue->last == slot)
        queue->last = before;
}

#endif
