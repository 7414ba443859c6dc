/*
 * pool.h: records of one size that are found by number and never move.
 *
 * Every call has the size of a record as a constant argument. A pool only grows. The caller keeps track of free
 * records, by links in the records themselves.
 */
#ifndef MILLRACE_POOL_H
#define MILLRACE_POOL_H

#include <stddef.h>
#include <stdint.h>

#define MR_POOL_CHUNK 256

typedef struct mr_pool {
    char **chunks;
    uint32_t chunk_count;
    uint32_t count; /* records in use so far */
} mr_pool;

/* An empty pool is zeroed memory. */
void mr_pool_free(mr_pool *pool);

/* Returns the next record of this size, zeroed, and its number; NULL without memory or beyond `limit` records. O(1)
 * on average. */
void *mr_pool_extend(mr_pool *pool, size_t record_size, uint32_t limit, uint32_t *number);

/* The record of a number, or NULL if there is none. */
static inline void *mr_pool_at(const mr_pool *pool, uint32_t number, size_t record_size)
{
    return number < pool->count ? pool->chunks[number / MR_POOL_CHUNK] + number % MR_POOL_CHUNK * record_size : NULL;
}

#endif
