/* buffers.h: the buffers that io_uring provides for receives without one. For the files of this folder only. */
#ifndef MILLRACE_RING_BUFFERS_H
#define MILLRACE_RING_BUFFERS_H

#include "ring.h"

/* Provides no buffers if that fails: then a receive without a buffer is attempted when the socket is readable. */
void mr_ring_open_buffers(mr_ring *state);
void mr_ring_close_buffers(mr_ring *state);
/* Frees the buffers in the child of a fork, which has not inherited the buffer ring. */
void mr_ring_free_buffers(mr_ring *state);

/*
 * Provides one more buffer after a receive has found none. So the kernel has as many as were ever in use at once, and a
 * loop with little traffic uses the same few again, which stay in the cache.
 */
void mr_ring_add_buffer(mr_loop *loop, mr_ring *state);

/* Returns the buffer that the kernel has chosen, and provides another one with its identifier. */
mr_buffer *mr_ring_take_chosen(mr_loop *loop, mr_ring *state, const struct io_uring_cqe *entry);

#endif
