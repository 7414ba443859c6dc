/* prepare.h: writes an operation into an entry of the ring. For the files of this folder only. */
#ifndef MILLRACE_RING_PREPARE_H
#define MILLRACE_RING_PREPARE_H

#include "ring.h"

/*
 * True for operations that the loop attempts itself and, if they would block, again when the socket is ready. io_uring
 * cannot send a file in one step; a connect could not be submitted again after its thread has ended (EALREADY); and a
 * receive without a buffer needs provided buffers.
 */
bool mr_ring_is_attempted(const mr_ring *state, const mr_slot *slot);

void mr_ring_prepare(const mr_ring *state, struct io_uring_sqe *entry, mr_slot *slot);

#endif
