/* queue.h: the queue of the ring, and the backlog of what found it full. For the files of this folder only. */
#ifndef MILLRACE_RING_QUEUE_H
#define MILLRACE_RING_QUEUE_H

#include "ring.h"

/* Returns an entry of the ring, or NULL if it is full. */
struct io_uring_sqe *mr_ring_next_entry(mr_loop *loop, mr_ring *state);

/* Submits all entries to the kernel, which may leave some. */
void mr_ring_flush(mr_loop *loop, mr_ring *state);

/* Queues an operation in the ring, or in the backlog if the ring is full. */
void mr_ring_enqueue(mr_loop *loop, mr_slot *slot);

void mr_ring_prepare_cancel(struct io_uring_sqe *entry, mr_slot *slot);
void mr_ring_push_backlog(mr_ring *state, mr_slot *slot, mr_ring_queue purpose);
void mr_ring_leave_backlog(mr_ring *state, mr_slot *slot);
void mr_ring_submit_backlog(mr_loop *loop, mr_ring *state);

#endif
