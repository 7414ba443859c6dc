/*
 * pool.h: records of one size that are found by number and never move.
 *
 * The caller names the size in every call, so that it is a constant there. A pool only grows. Which records are free is the caller's business: it links them through the records themselves.
 */
#ifndef MILLRACE_POOL_H
#define MILLRACE_POOL_H

#include <stddef.h>
#include <stdint.h>

#define MR_POOL_CHUNK 256

typedef struct mr_pool {
    char **chunks;
    uint32_t chunk_count;
    uint32_t count; /* records handed out */
} mr_pool;

/* Zeroed memory is an empty pool. */
void mr_pool_free(mr_pool *pool);

/* The next record of so many bytes, zeroed, and its number; NULL without memory or beyond `limit` records. O(1) on
 * average. */
void *mr_pool_extend(mr_pool *pool, size_t record_size, uint32_t limit, uint32_t *number);

/* The record of a number, or NULL if there is none. */
static inline void *mr_pool_at(const mr_pool *pool, uint32_t number, size_t record_size)
{
    return number < pool->count ? pool->chunks[number / MR_POOL_CHUNK] + number % MR_POOL_CHUNK * record_size : NULL;
}

#endif
