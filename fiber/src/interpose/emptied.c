/* emptied.c: remembers whether a fiber's last receive emptied its socket. */
#include "emptied.h"
#include "../carrier.h"
#include "../watch.h"
#include "socket.h"

static bool is_seen(int descriptor)
{
    const mf_stream_seen *seen = &mf_current->seen;
    return seen->descriptor == descriptor && seen->closes == mf_watch_closes();
}

bool mf_seems_empty(int descriptor)
{
    return is_seen(descriptor) && mf_current->seen.is_emptied;
}

/* Behind a short datagram there may be others. */
static void look_at(int descriptor)
{
    int error = errno;
    unsigned closes = mf_watch_closes();
    mf_current->seen =
        (mf_stream_seen){.descriptor = descriptor, .closes = closes, .is_stream = mf_is_stream(descriptor)};
    errno = error;
}

void mf_note_received(int descriptor, size_t wanted, ssize_t received)
{
    bool was_short = received > 0 && (size_t)received < wanted;
    if (was_short && !is_seen(descriptor))
        look_at(descriptor);
    mf_current->seen.is_emptied = was_short && mf_current->seen.is_stream;
}
