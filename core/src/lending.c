/* lending.c: see lending.h. */
#include "lending.h"
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

mr_buffer *mr_lender_take(mr_lender *lender)
{
    mr_buffer *buffer = lender->free_first;
    if (!buffer) {
        buffer = mr_buffer_create();
        lender->out_count += buffer != NULL;
        return buffer;
    }
    lender->out_count++;
    lender->free_first = successor(buffer);
    lender->free_count--;
    return buffer;
}

void mr_lender_put(mr_lender *lender, mr_buffer *buffer)
{
    MR_CHECK(buffer && buffer != lender->free_first); /* given back twice, it would be two receives' */
    lender->out_count--;
    if (lender->free_count == KEPT_MAX) {
        mr_buffer_destroy(buffer);
        return;
    }
    set_successor(buffer, lender->free_first);
    lender->free_first = buffer;
    lender->free_count++;
}

void mr_lender_check(const mr_lender *lender)
{
    unsigned count = 0;
    for (const mr_buffer *buffer = lender->free_first; buffer; buffer = successor(buffer))
        MR_CHECK(++count <= lender->free_count);
    MR_CHECK(count == lender->free_count);
}

void mr_lender_free_all(mr_lender *lender)
{
    for (mr_buffer *buffer = lender->free_first, *next; buffer; buffer = next) {
        next = successor(buffer);
        mr_buffer_destroy(buffer);
    }
    *lender = (mr_lender){0};
}
