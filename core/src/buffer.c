/* buffer.c: see buffer.h. */
#include "buffer.h"
#include "millrace_check.h"

#include <stdlib.h>

mr_buffer *mr_buffer_create(void)
{
    return malloc(sizeof(mr_buffer));
}

void mr_buffer_destroy(mr_buffer *buffer)
{
    free(buffer);
}

void mr_buffers_check(const mr_buffers *buffers)
{
    unsigned count = 0;
    for (const mr_buffer *buffer = buffers->free_first; buffer; buffer = mr_buffer_successor(buffer))
        MR_CHECK(++count <= buffers->free_count);
    MR_CHECK(count == buffers->free_count);
}

void mr_buffers_free_all(mr_buffers *buffers)
{
    for (mr_buffer *buffer = buffers->free_first, *next; buffer; buffer = next) {
        next = mr_buffer_successor(buffer);
        mr_buffer_destroy(buffer);
    }
    *buffers = (mr_buffers){0};
}
