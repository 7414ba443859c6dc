/*
 * http2_arena.c - the memory that an HTTP/2 connection has as long as it lives. Must not know: GHC, sockets.
 *
 * libnghttp2 allocates 25 KB for a session, and an idle connection has used few of them: the session's record, the
 * beginning of the memory for frames, the ends of two rings of HPACK's, and parts of a table of streams. In malloc's
 * order these are on four pages of memory. An arena is a piece of address space in which they are on two. The rest of
 * its pages are never touched, and so take no memory, until the connection has sent large frames.
 *
 * Arenas of connections that have ended are used again, the last one first.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for madvise */
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_ARENAS 0 /* A sanitizer must see each block by itself. */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAS_ARENAS 0
#endif
#endif
#ifndef HAS_ARENAS
#ifdef __linux__
#define HAS_ARENAS 1
#else
#define HAS_ARENAS 0
#endif
#endif

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "http2_internal.h"

#if HAS_ARENAS
#include <sys/mman.h>

#define PAGE 4096u

/* A ring is filled from its end on. This many of its bytes are with what is used. */
#define RING      1024u
#define RING_USED 64u

#define TABLE     4096u
#define SESSION   3072u
#define FRAME_MIN 16384u
#define FRAME     16640u

/* The first page in use: the end of one ring, and the table. The second: the end of the other ring, the connection's
 * records, and the beginning of the memory for frames. */
#define FIRST_RING_AT  (PAGE - RING + RING_USED)
#define TABLE_AT       (PAGE + RING_USED)
#define SECOND_RING_AT (3 * PAGE - RING + RING_USED)
#define HEAD_AT        (3 * PAGE + RING_USED)
#define RECORD_AT      (HEAD_AT + sizeof(head))
#define SESSION_AT     (RECORD_AT + (sizeof(http2_connection) + 15) / 16 * 16)
#define FRAME_AT       (SESSION_AT + SESSION)
#define ARENA_SIZE     32768u /* eight pages */

/* Address space is mapped for this many arenas at a time. */
#define ARENAS 64u

/* The limit of arenas that are kept with their pages. */
#define CACHED_MAX 256u

typedef struct head {
    struct arena *next;           /* in the list of free arenas */
    uint8_t was_used, is_opening; /* is_opening: blocks are still given */
    uint8_t has_session, has_table, has_frame, rings;
} head;

typedef struct arena {
    _Alignas(PAGE) uint8_t bytes[ARENA_SIZE];
} arena;

_Static_assert(FRAME_AT + FRAME <= ARENA_SIZE, "the last block must fit");
_Static_assert(HEAD_AT % 16 == 0 && sizeof(head) % 16 == 0 && SESSION_AT % 16 == 0, "blocks are aligned as malloc's");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static arena *first_free;
static size_t free_count; /* arenas in the list that have pages */

static head *head_of(arena *at)
{
    return (head *)(at->bytes + HEAD_AT);
}

static arena *arena_of(http2_connection *connection)
{
    return (arena *)((uint8_t *)connection - RECORD_AT);
}

static void push_free(arena *at)
{
    head_of(at)->next = first_free;
    first_free = at;
}

/* Must be called with the lock. Writes nothing to the new arenas, so they have no pages yet. */
static arena *new_arena(void)
{
    static arena *next, *end;
    if (next == end) {
        arena *space = mmap(NULL, ARENAS * sizeof *space, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED)
            return NULL;
        (void)madvise(space, ARENAS * sizeof *space, MADV_NOHUGEPAGE); /* A large page would be touched as a whole. */
        next = space;
        end = space + ARENAS;
    }
    return next++;
}

http2_connection *http2_arena_open(void)
{
    pthread_mutex_lock(&lock);
    arena *at = first_free;
    if (at != NULL) {
        first_free = head_of(at)->next;
        free_count -= head_of(at)->was_used;
    } else {
        at = new_arena();
    }
    pthread_mutex_unlock(&lock);
    if (at == NULL)
        return NULL;
    uint8_t was_used = head_of(at)->was_used;
    *head_of(at) = (head){.was_used = was_used, .is_opening = 1};
    http2_connection *connection = (http2_connection *)(at->bytes + RECORD_AT);
    memset(connection, 0, sizeof *connection);
    return connection;
}

void http2_arena_seal(http2_connection *connection)
{
    head_of(arena_of(connection))->is_opening = 0;
}

void http2_arena_close(http2_connection *connection)
{
    arena *at = arena_of(connection);
    pthread_mutex_lock(&lock);
    int is_kept = free_count < CACHED_MAX;
    free_count += (size_t)is_kept;
    pthread_mutex_unlock(&lock);
    if (!is_kept)
        (void)madvise(at, sizeof *at, MADV_DONTNEED); /* It reads as zeros then. */
    head_of(at)->was_used = is_kept != 0;
    pthread_mutex_lock(&lock);
    push_free(at);
    pthread_mutex_unlock(&lock);
}

static int is_in(const arena *at, const void *memory)
{
    return (const uint8_t *)memory >= at->bytes && (const uint8_t *)memory < at->bytes + ARENA_SIZE;
}

/* The address of a block in the arena, if it is one of those that libnghttp2 allocates first. Otherwise NULL. */
static void *block_in(arena *at, size_t size)
{
    head *state = head_of(at);
    if (!state->is_opening)
        return NULL;
    if (size == RING && state->rings < 2)
        return at->bytes + (state->rings++ == 0 ? SECOND_RING_AT : FIRST_RING_AT);
    if (size > FRAME_MIN && size <= FRAME && !state->has_frame) {
        state->has_frame = 1;
        return at->bytes + FRAME_AT;
    }
    return NULL;
}

static void *zeroed_block_in(arena *at, size_t size)
{
    head *state = head_of(at);
    void *memory = NULL;
    if (!state->is_opening)
        return NULL;
    if (size == TABLE && !state->has_table) {
        state->has_table = 1;
        memory = at->bytes + TABLE_AT;
    } else if (size > SESSION / 2 && size <= SESSION && !state->has_session) {
        state->has_session = 1;
        memory = at->bytes + SESSION_AT;
    }
    /* New pages are zeros, and stay untouched. */
    if (memory != NULL && state->was_used)
        memset(memory, 0, size);
    return memory;
}

static void *alloc(size_t size, void *data)
{
    void *memory = block_in(data, size);
    return memory != NULL ? memory : http_alloc(size);
}

static void *alloc_zeroed(size_t count, size_t size, void *data)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    void *memory = zeroed_block_in(data, count * size);
    return memory != NULL ? memory : http_alloc_zeroed(count * size);
}

static void dealloc(void *memory, void *data)
{
    if (!is_in(data, memory))
        http_free_grown(memory);
}

/* The most bytes of a block that begins here. */
static size_t size_at(const arena *at, const uint8_t *memory)
{
    switch (memory - at->bytes) {
    case FRAME_AT:
        return FRAME;
    case TABLE_AT:
        return TABLE;
    case SESSION_AT:
        return SESSION;
    default:
        return RING;
    }
}

static void *reallocate(void *memory, size_t size, void *data)
{
    arena *at = data;
    if (memory == NULL || !is_in(at, memory))
        return http_grow(memory, size);
    size_t before = size_at(at, memory);
    if (size <= before)
        return memory;
    void *larger = http_grow(NULL, size);
    if (larger != NULL)
        memcpy(larger, memory, before);
    return larger;
}

nghttp2_mem http2_allocator(http2_connection *connection)
{
    return (nghttp2_mem){arena_of(connection), alloc, dealloc, alloc_zeroed, reallocate};
}
#else
http2_connection *http2_arena_open(void)
{
    return calloc(1, sizeof(http2_connection));
}

void http2_arena_seal(http2_connection *connection)
{
    (void)connection;
}

void http2_arena_close(http2_connection *connection)
{
    free(connection);
}

static void *alloc(size_t size, void *data)
{
    (void)data;
    return http_alloc(size);
}

static void dealloc(void *memory, void *data)
{
    (void)data;
    http_free_grown(memory);
}

static void *alloc_zeroed(size_t count, size_t size, void *data)
{
    (void)data;
    return size != 0 && count > SIZE_MAX / size ? NULL : http_alloc_zeroed(count * size);
}

static void *reallocate(void *memory, size_t size, void *data)
{
    (void)data;
    return http_grow(memory, size);
}

nghttp2_mem http2_allocator(http2_connection *connection)
{
    (void)connection;
    return (nghttp2_mem){NULL, alloc, dealloc, alloc_zeroed, reallocate};
}
#endif
