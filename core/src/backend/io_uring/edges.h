/* edges.h: operations that wait for an edge of an epoll descriptor, because a poll of the ring would complete
   again at once. For the files of this folder only. */
#ifndef MILLRACE_RING_EDGES_H
#define MILLRACE_RING_EDGES_H

#include "ring.h"

/* True if an operation with this result must wait for an edge, because a poll of the ring would complete again at
 * once. */
bool mr_ring_waits_for_edge(const mr_ring *state, const mr_slot *slot, int32_t answer);

/*
 * Makes an operation wait for an edge. If its direction is watched already, earlier events may have been meant for it,
 * so it is attempted once more first. Returns true if it waits or has ended; false if there is no memory, and then it
 * must be submitted again.
 */
bool mr_ring_wait_for_edge(mr_loop *loop, mr_slot *slot);

void mr_ring_leave_edges(mr_ring *state, mr_slot *slot);
void mr_ring_arm_edges(mr_loop *loop, mr_ring *state);
void mr_ring_note_edges(mr_loop *loop, mr_ring *state);
void mr_ring_detach(mr_loop *loop, mr_descriptor *descriptor);

#endif
