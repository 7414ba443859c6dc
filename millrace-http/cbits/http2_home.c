/*
 * http2_home.c - the memory that an HTTP/2 connection has as long as it lives. Must not know: GHC, sockets.
 *
 * libnghttp2 allocates 25 KB for a session, and an idle connection has used few of them: the session's record, the beginning of the
 * memory for frames, the ends of two rings of HPACK's, and parts of a table of streams. In malloc's order these are on four pages of
 * memory. A home is a piece of address space in which they are on two. The rest of its pages are never touched, and so take no
 * memory, until the connection has sent large frames.
 *
 * Homes that connections have left are used again, the last one first.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for madvise */
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_HOMES 0 /* A sanitizer must see each block by itself. */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define HAS_HOMES 0
#endif
#endif
#ifndef HAS_HOMES
#ifdef __linux__
#define HAS_HOMES 1
#else
#define HAS_HOMES 0
#endif
#endif

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "http2_internal.h"

#if HAS_HOMES
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
#define HOME           32768u /* eight pages */

/* Address space is mapped for this many homes at a time. */
#define HOMES 64u

/* The limit of homes that are kept with their pages. */
#define KEPT_MAX 256u

typedef struct head {
    struct home *next;            /* in the list of free homes */
    uint8_t was_used, is_opening; /* is_opening: blocks are still given */
    uint8_t has_session, has_table, has_frame, rings;
} head;

typedef struct home {
    _Alignas(PAGE) uint8_t bytes[HOME];
} home;

_Static_assert(FRAME_AT + FRAME <= HOME, "the last block must fit");
_Static_assert(HEAD_AT % 16 == 0 && sizeof(head) % 16 == 0 && SESSION_AT % 16 == 0, "blocks are aligned as malloc's");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static home *first_free;
static size_t free_count; /* homes in the list that have pages */

static head *head_of(home *at)
{
    return (head *)(at->bytes + HEAD_AT);
}

static home *home_of(http2_connection *connection)
{
    return (home *)((uint8_t *)connection - RECORD_AT);
}

static void push_free(home *at)
{
    head_of(at)->next = first_free;
    first_free = at;
}

/* Must be called with the lock. Writes nothing to the new homes, so they have no pages yet. */
static home *new_home(void)
{
    static home *next, *end;
    if (next == end) {
        home *space = mmap(NULL, HOMES * sizeof *space, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED)
            return NULL;
        (void)madvise(space, HOMES * sizeof *space, MADV_NOHUGEPAGE); /* A large page would be touched as a whole. */
        next = space;
        end = space + HOMES;
    }
    return next++;
}

http2_connection *http2_enter_home(void)
{
    pthread_mutex_lock(&lock);
    home *at = first_free;
    if (at != NULL) {
        first_free = head_of(at)->next;
        free_count -= head_of(at)->was_used;
    } else {
        at = new_home();
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

void http2_settle_in(http2_connection *connection)
{
    head_of(home_of(connection))->is_opening = 0;
}

void http2_leave_home(http2_connection *connection)
{
    home *at = home_of(connection);
    pthread_mutex_lock(&lock);
    int is_kept = free_count < KEPT_MAX;
    free_count += (size_t)is_kept;
    pthread_mutex_unlock(&lock);
    if (!is_kept)
        (void)madvise(at, sizeof *at, MADV_DONTNEED); /* It reads as zeros then. */
    head_of(at)->was_used = is_kept != 0;
    pthread_mutex_lock(&lock);
    push_free(at);
    pthread_mutex_unlock(&lock);
}

static int is_in(const home *at, const void *memory)
{
    return (const uint8_t *)memory >= at->bytes && (const uint8_t *)memory < at->bytes + HOME;
}

/* The place of a block, if it is one of those that libnghttp2 allocates first. NULL: there is none for it. */
static void *place_of(home *at, size_t size)
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

static void *zeroed_place_of(home *at, size_t size)
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

static void *take(size_t size, void *data)
{
    void *memory = place_of(data, size);
    return memory != NULL ? memory : http_take(size);
}

static void *take_zeroed(size_t count, size_t size, void *data)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    void *memory = zeroed_place_of(data, count * size);
    return memory != NULL ? memory : http_take_zeroed(count * size);
}

static void give(void *memory, void *data)
{
    if (!is_in(data, memory))
        http_give_grown(memory);
}

/* The most bytes of a block that begins here. */
static size_t size_at(const home *at, const uint8_t *memory)
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

static void *resize(void *memory, size_t size, void *data)
{
    home *at = data;
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
    return (nghttp2_mem){home_of(connection), take, give, take_zeroed, resize};
}
#else
http2_connection *http2_enter_home(void)
{
    return calloc(1, sizeof(http2_connection));
}

void http2_settle_in(http2_connection *connection)
{
    (void)connection;
}

void http2_leave_home(http2_connection *connection)
{
    free(connection);
}

static void *take(size_t size, void *data)
{
    (void)data;
    return http_take(size);
}

static void give(void *memory, void *data)
{
    (void)data;
    http_give_grown(memory);
}

static void *take_zeroed(size_t count, size_t size, void *data)
{
    (void)data;
    return size != 0 && count > SIZE_MAX / size ? NULL : http_take_zeroed(count * size);
}

static void *resize(void *memory, size_t size, void *data)
{
    (void)data;
    return http_grow(memory, size);
}

nghttp2_mem http2_allocator(http2_connection *connection)
{
    (void)connection;
    return (nghttp2_mem){NULL, take, give, take_zeroed, resize};
}
#endif
