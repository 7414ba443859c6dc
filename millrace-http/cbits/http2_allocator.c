/*
 * http2_allocator.c - memory for connections and streams of HTTP/2, libnghttp2's included. Must not know: GHC, sockets.
 *
 * A request allocates about twenty blocks, so a hundred requests at a time hold two thousand. That is more than the C library keeps
 * in a thread's cache, and without the cache it is slow. So each thread keeps freed small blocks here, in lists by size.
 * All blocks come from malloc, so any thread may free one, with http2_give or free().
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http2_internal.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KEEPS_BLOCKS 0 /* A sanitizer finds errors only if memory is freed at once. */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define KEEPS_BLOCKS 0
#endif
#endif
#ifndef KEEPS_BLOCKS
#ifdef __GLIBC__
#define KEEPS_BLOCKS 1
#else
#define KEEPS_BLOCKS 0
#endif
#endif

#if KEEPS_BLOCKS
#include <malloc.h>

/* The lists' sizes differ by glibc's step of 16 bytes. A list has blocks of at least its size. */
#define STEP       16u
#define LIST_COUNT 160u

/* The limit of a thread's blocks, in bytes. */
#define KEPT_MAX (1u << 20)

typedef struct block {
    struct block *next;
} block;

typedef struct kept {
    block *lists[LIST_COUNT];
    size_t bytes;
} kept;

static _Thread_local kept *kept_here;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int has_key;

/* Frees a thread's blocks when the thread ends. */
static void give_all_back(void *data)
{
    kept *all = data;
    for (size_t i = 0; i < LIST_COUNT; i++)
        while (all->lists[i] != NULL) {
            block *first = all->lists[i];
            all->lists[i] = first->next;
            free(first);
        }
    kept_here = NULL;
    free(all);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, give_all_back) == 0;
}

/* Returns the new lists of this thread, or NULL without memory: then no blocks are kept. */
static kept *begin_keeping(void)
{
    pthread_once(&once, make_key);
    kept *all = has_key ? calloc(1, sizeof *all) : NULL;
    if (all != NULL && pthread_setspecific(key, all) != 0) {
        free(all);
        all = NULL;
    }
    kept_here = all;
    return all;
}

void *http2_take(size_t size)
{
    size_t list = (size + STEP / 2 - 1) / STEP;
    kept *all = kept_here;
    if (list >= LIST_COUNT || all == NULL || all->lists[list] == NULL)
        return malloc(size); /* NOLINT(clang-analyzer-optin.portability.UnixAPI): a size of 0 is as with malloc */
    block *first = all->lists[list];
    all->lists[list] = first->next;
    all->bytes -= list * STEP;
    return first;
}

void http2_give(void *memory)
{
    if (memory == NULL)
        return;
    size_t list = (malloc_usable_size(memory) - STEP / 2) / STEP;
    kept *all = kept_here != NULL ? kept_here : begin_keeping();
    if (list >= LIST_COUNT || all == NULL || all->bytes > KEPT_MAX) {
        free(memory);
        return;
    }
    block *first = memory;
    first->next = all->lists[list];
    all->lists[list] = first;
    all->bytes += list * STEP;
}
#else
void *http2_take(size_t size)
{
    return malloc(size);
}

void http2_give(void *memory)
{
    free(memory);
}
#endif

/* Large blocks come from calloc, which need not write to fresh memory. So a large block that is mostly unused takes few pages. */
#define LARGE 1024u

void *http2_take_zeroed(size_t size)
{
    if (size >= LARGE)
        return calloc(1, size);
    void *memory = http2_take(size);
    if (memory != NULL)
        memset(memory, 0, size);
    return memory;
}

static void *take(size_t size, void *data)
{
    (void)data;
    return http2_take(size);
}

static void give(void *memory, void *data)
{
    (void)data;
    http2_give(memory);
}

static void *take_zeroed(size_t count, size_t size, void *data)
{
    (void)data;
    return size != 0 && count > SIZE_MAX / size ? NULL : http2_take_zeroed(count * size);
}

static void *resize(void *memory, size_t size, void *data)
{
    (void)data;
    return realloc(memory, size);
}

nghttp2_mem *http2_allocator(void)
{
    static nghttp2_mem functions = {NULL, take, give, take_zeroed, resize};
    return &functions;
}
