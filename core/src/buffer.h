/*
 * buffer.h: the buffers that a loop lends to operations that bring none (MR_BORROW).
 *
 * Last in, first out, so that the next receive writes to memory that is still in the cache, and an idle descriptor
 * occupies none. Knows nothing of operations and loops.
 */
#ifndef MILLRACE_BUFFER_H
#define MILLRACE_BUFFER_H

#include "millrace.h"

typedef struct mr_buffers {
    mr_buffer *free_first;
    unsigned free_count;
    int64_t out_count; /* taken and not put back; what others took and put here counts, too */
} mr_buffers;

/* A buffer, or NULL without memory. */
mr_buffer *mr_buffers_take(mr_buffers *buffers);

/* Any buffer of any buffers. Keeps it, or frees it if there are plenty. */
void mr_buffers_put(mr_buffers *buffers, mr_buffer *buffer);

/* Aborts if the list of free buffers is not as long as it should be. For tests. */
void mr_buffers_check(const mr_buffers *buffers);

void mr_buffers_free_all(mr_buffers *buffers);

#endif
