/* stream.c: locks of stdio's streams, which a fiber may hold while it waits. */
#include "stream.h"
#include "../check.h"
#include "../lock.h"
#include "blocking.h"
#include "fork.h"
#include "libc.h"

MF_ALWAYS_LINKED(stream);

enum { BUCKETS = 256 };

typedef struct bucket {
    mf_lock lock;
    mf_stream_user *first;
} bucket;

static bucket buckets[BUCKETS]; /* by the stream's address */

static bucket *bucket_of(const FILE *stream)
{
    return &buckets[((uintptr_t)stream >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}
static_assert(BUCKETS == 1 << 8, "bucket_of takes eight bits of the product");

/* The bucket is locked. */
static bool is_used_by_sibling(const bucket *own, const FILE *stream)
{
    for (const mf_stream_user *each = own->first; each; each = each->next)
        if (each->stream == stream && each->carrier == mf_this_carrier && each->fiber != mf_current)
            return true;
    return false;
}

void mf_stream_forget_after_fork(void)
{
    for (size_t i = 0; i < BUCKETS; i++)
        buckets[i] = (bucket){0};
}

static bool try_lock(FILE *stream, mf_stream_user *own)
{
    bucket *b = bucket_of(stream);
    mf_lock_acquire(&b->lock);
    bool locked = !is_used_by_sibling(b, stream) && LIBC(ftrylockfile)(stream) == 0;
    if (locked) {
        *own = (mf_stream_user){.next = b->first, .stream = stream, .fiber = mf_current, .carrier = mf_this_carrier};
        b->first = own;
    }
    mf_lock_release(&b->lock);
    return locked;
}

bool mf_stream_try_lock(FILE *stream, mf_stream_user *own)
{
    own->stream = NULL;
    return (stream->_flags & MF_STREAM_USER_LOCKS) || try_lock(stream, own);
}

void mf_stream_lock(FILE *stream, mf_stream_user *own)
{
    while (!mf_stream_try_lock(stream, own))
        mf_wait_a_millisecond();
}

static void remove_user(const FILE *stream, const mf_stream_user *own)
{
    bucket *b = bucket_of(stream);
    mf_lock_acquire(&b->lock);
    mf_stream_user **link = &b->first;
    while (*link && *link != own)
        link = &(*link)->next;
    MR_CHECK(*link == own);
    *link = own->next;
    mf_lock_release(&b->lock);
}

void mf_stream_unlock(FILE *stream, mf_stream_user *own)
{
    if (!own->stream)
        return;
    remove_user(stream, own);
    LIBC(funlockfile)(stream);
}

/* --------------------------------------------------------------------------------- locked by the program itself --- */

int ftrylockfile(FILE *stream)
{
    mf_stream_user *own = mf_current ? malloc(sizeof *own) : NULL;
    if (!own)
        return LIBC(ftrylockfile)(stream);
    if (!try_lock(stream, own)) {
        free(own);
        mf_consume_budget();
        return EBUSY;
    }
    own->is_programs = true;
    return 0;
}

void flockfile(FILE *stream)
{
    mf_stream_user *own = mf_current ? malloc(sizeof *own) : NULL;
    if (!own) {
        LIBC(flockfile)(stream);
        return;
    }
    while (!try_lock(stream, own))
        mf_wait_a_millisecond();
    own->is_programs = true;
}

static mf_stream_user *find_programs(const FILE *stream)
{
    bucket *b = bucket_of(stream);
    mf_lock_acquire(&b->lock);
    mf_stream_user *found = b->first;
    while (found && !(found->is_programs && found->stream == stream && found->fiber == mf_current))
        found = found->next;
    mf_lock_release(&b->lock);
    return found;
}

bool mf_stream_is_held(const FILE *stream)
{
    return find_programs(stream) != NULL;
}

void mf_stream_release_user_locks(FILE *stream)
{
    mf_stream_user *own;
    while ((own = find_programs(stream))) {
        mf_stream_unlock(stream, own);
        free(own);
    }
}

void mf_stream_forget(const FILE *stream)
{
    mf_stream_user *own;
    while ((own = find_programs(stream))) {
        remove_user(stream, own);
        free(own);
    }
}

void funlockfile(FILE *stream)
{
    mf_stream_user *own = mf_current ? find_programs(stream) : NULL;
    if (own)
        mf_stream_unlock(stream, own);
    else
        LIBC(funlockfile)(stream);
    free(own);
}
