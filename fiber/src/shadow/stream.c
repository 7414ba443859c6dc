/* stream.c: locks of stdio's streams, held while a fiber waits. */
#include "stream.h"
#include "../lock.h"
#include "blocking.h"
#include "fork.h"
#include "libc.h"

#define NS_PER_MS UINT64_C(1000000)

static struct {
    mf_lock lock;
    mf_stream_user *first;
} users;

static bool is_used_by_neighbour(const FILE *stream)
{
    for (const mf_stream_user *each = users.first; each; each = each->next)
        if (each->stream == stream && each->fiber->carrier == mf_this_carrier && each->fiber != mf_current)
            return true;
    return false;
}

void mf_stream_forget_after_fork(void)
{
    users.first = NULL;
    atomic_store(&users.lock.state, 0);
}

bool mf_stream_try_lock(FILE *stream, mf_stream_user *own)
{
    mf_lock_take(&users.lock);
    bool locked = !is_used_by_neighbour(stream) && ftrylockfile(stream) == 0;
    if (locked) {
        *own = (mf_stream_user){.next = users.first, .stream = stream, .fiber = mf_current};
        users.first = own;
    }
    mf_lock_give(&users.lock);
    return locked;
}

void mf_stream_pause(void)
{
    mf_wait wait;
    mf_wait_init(&wait);
    mf_wait_park(&wait, mr_clock_now_ns() + NS_PER_MS, MF_UNINTERRUPTIBLE);
}

void mf_stream_lock(FILE *stream, mf_stream_user *own)
{
    while (!mf_stream_try_lock(stream, own))
        mf_stream_pause();
}

void mf_stream_unlock(FILE *stream, mf_stream_user *own)
{
    mf_lock_take(&users.lock);
    mf_stream_user **link = &users.first;
    while (*link != own)
        link = &(*link)->next;
    *link = own->next;
    mf_lock_give(&users.lock);
    funlockfile(stream);
}
