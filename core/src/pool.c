/* pool.c: see pool.h. Chunks of records, and a table of them that doubles. Must not know: operations. */
#include "pool.h"

#include <stdlib.h>

void mr_pool_free(mr_pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        free(pool->chunks[i]);
    free(pool->chunks);
}

static int add_chunk(mr_pool *pool, size_t record_size)
{
    uint32_t count = pool->chunk_count;
    if ((count & (count - 1)) == 0) { /* the table is full, so its capacity becomes the next power of two */
        char **chunks = realloc(pool->chunks, (count ? count * 2 : 1) * sizeof *chunks);
        if (!chunks)
            return -1;
        pool->chunks = chunks;
    }
    pool->chunks[count] = calloc(MR_POOL_CHUNK, record_size);
    if (!pool->chunks[count])
        return -1;
    pool->chunk_count++;
    return 0;
}

void *mr_pool_extend(mr_pool *pool, size_t record_size, uint32_t limit, uint32_t *number)
{
    if (pool->count == limit)
        return NULL;
    if (pool->count == pool->chunk_count * MR_POOL_CHUNK && add_chunk(pool, record_size))
        return NULL;
    *number = pool->count++;
    return mr_pool_at(pool, *number, record_size);
}
