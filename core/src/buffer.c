/* buffer.c: see buffer.h. */
#include "buffer.h"
#include "millrace_check.h"

#include <stdlib.h>
#include <string.h>

/* 4 MiB: as many buffers as a burst of two polls uses at once. */
enum { KEPT_MAX = 256 };

/* The list is linked through the buffers themselves: one cache line less to touch. */
static mr_buffer *successor(const mr_buffer *buffer)
{
    mr_buffer *next;
    memcpy(&next, buffer->bytes, sizeof next);
    return next;
}

static void set_successor(mr_buffer *buffer, mr_buffer *next)
{
    memcpy(buffer->bytes, &next, sizeof next);
}

mr_buffer *mr_buffer_create(void)
{
    return malloc(sizeof(mr_buffer));
}

void mr_buffer_destroy(mr_buffer *buffer)
{
    free(buffer);
}

mr_buffer *mr_buffers_take(mr_buffers *buffers)
{
    mr_buffer *buffer = buffers->free_first;
    if (!buffer) {
        buffer = mr_buffer_create();
        buffers->out_count += buffer != NULL;
        return buffer;
    }
    buffers->out_count++;
    buffers->free_first = successor(buffer);
    buffers->free_count--;
    return buffer;
}

void mr_buffers_put(mr_buffers *buffers, mr_buffer *buffer)
{
    MR_CHECK(buffer && buffer != buffers->free_first); /* given back twice, it would be two receives' */
    buffers->out_count--;
    if (buffers->free_count == KEPT_MAX) {
        mr_buffer_destroy(buffer);
        return;
    }
    set_successor(buffer, buffers->free_first);
    buffers->free_first = buffer;
    buffers->free_count++;
}

void mr_buffers_check(const mr_buffers *buffers)
{
    unsigned count = 0;
    for (const mr_buffer *buffer = buffers->free_first; buffer; buffer = successor(buffer))
        MR_CHECK(++count <= buffers->free_count);
    MR_CHECK(count == buffers->free_count);
}

void mr_buffers_free_all(mr_buffers *buffers)
{
    for (mr_buffer *buffer = buffers->free_first, *next; buffer; buffer = next) {
        next = successor(buffer);
        mr_buffer_destroy(buffer);
    }
    *buffers = (mr_buffers){0};
}
