/*
 * lending.h: the buffers that a loop lends to operations that bring none (MR_BORROW).
 *
 * Last in, first out, so that the next receive writes to memory that is still in the cache, and an idle descriptor
 * occupies none. Knows nothing of operations and loops.
 */
#ifndef MILLRACE_LENDING_H
#define MILLRACE_LENDING_H

#include "millrace.h"

typedef struct mr_lender {
    mr_buffer *free_first;
    unsigned free_count;
    int64_t out_count; /* taken and not put back; what others took and put here counts, too */
} mr_lender;

/* A buffer, or NULL without memory. */
mr_buffer *mr_lender_take(mr_lender *lender);

/* Any buffer of any lender. Keeps it, or frees it if there are plenty. */
void mr_lender_put(mr_lender *lender, mr_buffer *buffer);

/* Aborts if the list of free buffers is not as long as it should be. For tests. */
void mr_lender_check(const mr_lender *lender);

void mr_lender_free_all(mr_lender *lender);

#endif
