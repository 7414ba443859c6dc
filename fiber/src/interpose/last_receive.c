/* last_receive.c: records whether a fiber's last receive emptied its socket. */
#include "last_receive.h"
#include "../carrier.h"
#include "../watch.h"
#include "socket.h"

static bool is_recorded(int descriptor)
{
    const mf_last_receive *seen = &mf_current->last_receive;
    return seen->descriptor == descriptor && seen->closes == mf_watch_closes();
}

bool mf_seems_empty(int descriptor)
{
    return is_recorded(descriptor) && mf_current->last_receive.is_emptied;
}

/* Only a stream is empty after a short receive: more datagrams may follow a short one. */
static void record_descriptor(int descriptor)
{
    int error = errno;
    unsigned closes = mf_watch_closes();
    mf_current->last_receive =
        (mf_last_receive){.descriptor = descriptor, .closes = closes, .is_stream = mf_is_stream(descriptor)};
    errno = error;
}

void mf_note_received(int descriptor, size_t wanted, ssize_t received)
{
    bool was_short = received > 0 && (size_t)received < wanted;
    if (was_short && !is_recorded(descriptor))
        record_descriptor(descriptor);
    mf_current->last_receive.is_emptied = was_short && mf_current->last_receive.is_stream;
}
