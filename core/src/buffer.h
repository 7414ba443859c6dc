/*
 * buffer.h: the borrowed buffers of a loop: for receives that bring none (MR_BORROW).
 *
 * Last in, first out, so that the next receive writes to memory that is still in the cache, and an idle descriptor
 * needs none. Must not know: loops.
 */
#ifndef MILLRACE_BUFFER_H
#define MILLRACE_BUFFER_H

#include "millrace.h"

typedef struct mr_buffers {
    mr_buffer *free_first;
    unsigned free_count;
    int64_t out_count; /* taken and not put back; a buffer that another loop took and put back here counts as well */
} mr_buffers;

/* A buffer, or NULL without memory. */
mr_buffer *mr_buffers_take(mr_buffers *buffers);

/* Takes back a buffer of any loop: keeps it, or frees it if there are many. */
void mr_buffers_put(mr_buffers *buffers, mr_buffer *buffer);

/* Aborts if the list of free buffers has another length than is counted. For tests. */
void mr_buffers_check(const mr_buffers *buffers);

void mr_buffers_free_all(mr_buffers *buffers);

#endif
