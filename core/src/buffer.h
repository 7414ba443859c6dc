/*
 * buffer.h: the borrowed buffers of a loop: for receives that bring none (MR_BORROW).
 *
 * Last in, first out, so that the next receive writes to memory that is still in the cache, and an idle descriptor
 * needs none. Taking and putting are inline: a request does each twice. Must not know: loops.
 */
#ifndef MILLRACE_BUFFER_H
#define MILLRACE_BUFFER_H

#include "millrace.h"
#include "millrace_check.h"

#include <string.h>

typedef struct mr_buffers {
    mr_buffer *free_first;
    unsigned free_count;
    int64_t out_count; /* taken and not put back; a buffer that another loop took and put back here counts as well */
} mr_buffers;

/* 4 MiB: as many buffers as a burst of two polls uses at once. */
enum { MR_BUFFERS_KEPT_MAX = 256 };

/* The list is linked through the buffers themselves: one cache line less to touch. */
static inline mr_buffer *mr_buffer_successor(const mr_buffer *buffer)
{
    mr_buffer *next;
    memcpy(&next, buffer->bytes, sizeof next);
    return next;
}

static inline void mr_buffer_set_successor(mr_buffer *buffer, mr_buffer *next)
{
    memcpy(buffer->bytes, &next, sizeof next);
}

/* A buffer, or NULL without memory. */
static inline mr_buffer *mr_buffers_take(mr_buffers *buffers)
{
    mr_buffer *buffer = buffers->free_first;
    if (!buffer) {
        buffer = mr_buffer_create();
        buffers->out_count += buffer != NULL;
        return buffer;
    }
    buffers->out_count++;
    buffers->free_first = mr_buffer_successor(buffer);
    buffers->free_count--;
    return buffer;
}

/* Takes back a buffer of any loop: keeps it, or frees it if there are many. */
static inline void mr_buffers_put(mr_buffers *buffers, mr_buffer *buffer)
{
    MR_CHECK(buffer && buffer != buffers->free_first); /* given back twice, it would be two receives' */
    buffers->out_count--;
    if (buffers->free_count == MR_BUFFERS_KEPT_MAX) {
        mr_buffer_destroy(buffer);
        return;
    }
    mr_buffer_set_successor(buffer, buffers->free_first);
    buffers->free_first = buffer;
    buffers->free_count++;
}

/* Aborts if the list of free buffers has another length than is counted. For tests. */
void mr_buffers_check(const mr_buffers *buffers);

void mr_buffers_free_all(mr_buffers *buffers);

#endif
