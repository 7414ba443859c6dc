/*
 * buffer.h: the borrowed buffers of a loop, for receives without a buffer (MR_BORROW).
 *
 * A receive gets the buffer that was freed last, because it is still in the cache. An idle descriptor holds none.
 * Allocating and freeing are inline, because every receive does both. Must not know: loops.
 */
#ifndef MILLRACE_BUFFER_H
#define MILLRACE_BUFFER_H

#include "millrace.h"
#include "millrace_check.h"

#include <string.h>

typedef struct mr_buffers {
    mr_buffer *free_first;
    unsigned free_count;
    int64_t in_use_count; /* allocated minus freed buffers; negative if other loops' buffers are freed here */
} mr_buffers;

/* At most 4 MiB of free buffers are kept. A burst of two polls uses that many at once. */
enum { MR_BUFFERS_KEPT_MAX = 256 };

/* A free buffer holds the pointer to the next one in its first bytes, which saves touching another cache line. */
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

/* Returns a kept buffer or a new one; NULL if there is no memory. */
static inline mr_buffer *mr_buffers_alloc(mr_buffers *buffers)
{
    mr_buffer *buffer = buffers->free_first;
    if (!buffer) {
        buffer = mr_buffer_create();
        buffers->in_use_count += buffer != NULL;
        return buffer;
    }
    buffers->in_use_count++;
    buffers->free_first = mr_buffer_successor(buffer);
    buffers->free_count--;
    return buffer;
}

/* Keeps a buffer of any loop for later. Returns it to the system if MR_BUFFERS_KEPT_MAX are kept already. */
static inline void mr_buffers_free(mr_buffers *buffers, mr_buffer *buffer)
{
    MR_CHECK(buffer && buffer != buffers->free_first); /* freed twice, it would be given to two receives */
    buffers->in_use_count--;
    if (buffers->free_count == MR_BUFFERS_KEPT_MAX) {
        mr_buffer_destroy(buffer);
        return;
    }
    mr_buffer_set_successor(buffer, buffers->free_first);
    buffers->free_first = buffer;
    buffers->free_count++;
}

/* Aborts if `free_count` is not the length of the list. For tests. */
void mr_buffers_check(const mr_buffers *buffers);

void mr_buffers_free_all(mr_buffers *buffers);

#endif
