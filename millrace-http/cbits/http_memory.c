/*
 * http_memory.c - memory for connections and streams of HTTP/2 and HTTP/3, and of their libraries. Must not know:
 * GHC, sockets.
 *
 * A request allocates about twenty blocks, so a hundred requests at a time hold two thousand. That is more than the C
 * library keeps in a thread's cache, and without the cache it is slow. So each thread keeps freed small blocks here,
 * in lists by size, and also the two kinds of large blocks that bodies pass through. (The C library would give the
 * pages of large blocks back to the system, and touch new ones for the next block.) All blocks come from malloc, so
 * any thread may free one, with http_free or free().
 */
#include "http_memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http_body.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CACHES_BLOCKS 0 /* A sanitizer finds errors only if memory is freed at once. */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CACHES_BLOCKS 0
#endif
#endif
#ifndef CACHES_BLOCKS
#ifdef __GLIBC__
#define CACHES_BLOCKS 1
#else
#define CACHES_BLOCKS 0
#endif
#endif

#if CACHES_BLOCKS
#include <malloc.h>
#include <pthread.h>

/* The lists' sizes differ by glibc's step of 16 bytes. A list has blocks of at least its size. */
#define STEP       16u
#define LIST_COUNT 1032u

/* The lists after those: pieces of files, and output. */
#define PIECE_LIST  LIST_COUNT
#define PIECE_SIZE  (sizeof(http_piece) + HTTP_FILE_PIECE)
#define OUTPUT_LIST (LIST_COUNT + 1)
#define NO_LIST     (LIST_COUNT + 2)

/* malloc may give this much more than was asked for. */
#define SLACK 64u

/* The limit of a thread's blocks, in bytes. */
#define CACHED_MAX (1u << 20)

typedef struct block {
    struct block *next;
} block;

typedef struct cache {
    block *lists[NO_LIST];
    size_t bytes;
} cache;

static _Thread_local cache *thread_cache;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int has_key;

/* Frees a thread's blocks when the thread ends. */
static void free_all(void *data)
{
    cache *all = data;
    for (size_t i = 0; i < NO_LIST; i++)
        while (all->lists[i] != NULL) {
            block *first = all->lists[i];
            all->lists[i] = first->next;
            free(first);
        }
    thread_cache = NULL;
    free(all);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, free_all) == 0;
}

/* Returns the new lists of this thread, or NULL without memory: then no blocks are cache. */
static cache *make_cache(void)
{
    pthread_once(&once, make_key);
    cache *all = has_key ? calloc(1, sizeof *all) : NULL;
    if (all != NULL && pthread_setspecific(key, all) != 0) {
        free(all);
        all = NULL;
    }
    thread_cache = all;
    return all;
}

/* The list for blocks of a size that is asked for. */
static size_t list_for(size_t size)
{
    size_t list = (size + STEP / 2 - 1) / STEP;
    if (list < LIST_COUNT)
        return list;
    if (size == PIECE_SIZE)
        return PIECE_LIST;
    return size == HTTP_OUTPUT_SIZE ? OUTPUT_LIST : NO_LIST;
}

/* The list that a block of this size can be cache in. */
static size_t list_of(size_t size)
{
    size_t list = (size - STEP / 2) / STEP;
    if (list < LIST_COUNT)
        return list;
    if (size >= PIECE_SIZE && size < PIECE_SIZE + SLACK)
        return PIECE_LIST;
    return size >= HTTP_OUTPUT_SIZE && size < HTTP_OUTPUT_SIZE + SLACK ? OUTPUT_LIST : NO_LIST;
}

static size_t bytes_in(size_t list)
{
    if (list < LIST_COUNT)
        return list * STEP;
    return list == PIECE_LIST ? PIECE_SIZE : HTTP_OUTPUT_SIZE;
}

void *http_alloc(size_t size)
{
    size_t list = list_for(size);
    cache *all = thread_cache;
    if (list == NO_LIST || all == NULL || all->lists[list] == NULL)
        return malloc(size); /* NOLINT(clang-analyzer-optin.portability.UnixAPI): a size of 0 is as with malloc */
    block *first = all->lists[list];
    all->lists[list] = first->next;
    all->bytes -= bytes_in(list);
    return first;
}

void http_free(void *memory)
{
    if (memory == NULL)
        return;
    size_t list = list_of(malloc_usable_size(memory));
    cache *all = thread_cache != NULL ? thread_cache : make_cache();
    if (list == NO_LIST || all == NULL || all->bytes > CACHED_MAX) {
        free(memory);
        return;
    }
    block *first = memory;
    first->next = all->lists[list];
    all->lists[list] = first;
    all->bytes += bytes_in(list);
}
#else
void *http_alloc(size_t size)
{
    return malloc(size);
}

void http_free(void *memory)
{
    free(memory);
}
#endif

/* Large blocks come from calloc, which need not write to fresh memory. So a large block that is mostly unused takes few
   pages. */
#define LARGE 1024u

void *http_alloc_zeroed(size_t size)
{
    if (size >= LARGE)
        return calloc(1, size);
    void *memory = http_alloc(size);
    if (memory != NULL)
        memset(memory, 0, size);
    return memory;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Growing */

/*
 * Where memory is short, libnghttp2 frees a response's DATA frame twice if the queue of its stream cannot grow
 * (nghttp2_submit_data, 1.52). Only such queues grow by realloc, to twice their size (nghttp2_pq_push). So growing
 * succeeds even then, as long as one of these is free: most queues have less than 512 members of 8 bytes.
 */
enum { RESERVED_BYTES = 4096, RESERVED_COUNT = 64 };

typedef struct reserved {
    _Alignas(16) uint8_t bytes[RESERVED_BYTES];
} reserved;

static reserved reserve[RESERVED_COUNT]; /* without pages until it is used */
static atomic_bool is_used[RESERVED_COUNT];

static int is_reserved(const void *memory)
{
    return (uintptr_t)memory - (uintptr_t)reserve < sizeof reserve;
}

static void *alloc_reserved(size_t size)
{
    for (int i = 0; size <= RESERVED_BYTES && i < RESERVED_COUNT; i++)
        if (!atomic_exchange(&is_used[i], true))
            return reserve[i].bytes;
    return NULL;
}

void http_free_grown(void *memory)
{
    if (is_reserved(memory))
        atomic_store(&is_used[(reserved *)memory - reserve], false);
    else
        http_free(memory);
}

void *http_grow(void *memory, size_t size)
{
    bool was_reserved = is_reserved(memory);
    void *larger = was_reserved ? malloc(size) : realloc(memory, size);
    if (larger != NULL && !was_reserved)
        return larger;
    if (larger == NULL && (larger = alloc_reserved(size)) == NULL)
        return NULL;
    if (memory != NULL) {
        memcpy(larger, memory, size / 2);
        http_free_grown(memory);
    }
    return larger;
}
