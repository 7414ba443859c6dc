/* output_calls.c: write, send and their relatives. */
#include "calls.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

char large[LARGE_BYTES];

static void call_pwritev2_here(world *w, outcome *o)
{
    struct iovec vector[] = {{"some", 4}, {"text", 4}};
    o->result = pwritev2(w->descriptor, vector, 2, -1, 0);
}

static void call_pwritev2_dsync(world *w, outcome *o)
{
    struct iovec vector = {"sometext", 8};
    o->result = pwritev2(w->descriptor, &vector, 1, 2, RWF_DSYNC);
}

static void write_with_flags(world *w, outcome *o, int flags)
{
    struct iovec vector = {"sometext", 8};
    o->result = pwritev2(w->descriptor, &vector, 1, -1, flags);
}

static void call_pwritev2_unknown(world *w, outcome *o)
{
    write_with_flags(w, o, FLAGS_UNKNOWN);
}

static void call_pwritev2_of_disks(world *w, outcome *o)
{
    write_with_flags(w, o, FLAGS_OF_DISKS);
}

static void call_pwritev2_contradictory(world *w, outcome *o)
{
    write_with_flags(w, o, FLAGS_CONTRADICTORY);
}

static void call_pwritev2_of_files(world *w, outcome *o)
{
    write_with_flags(w, o, FLAGS_OF_FILES);
}

static void call_pwritev2_nowait_here(world *w, outcome *o)
{
    write_with_flags(w, o, RWF_NOWAIT);
}

static void call_pwritev2_nowait_unknown(world *w, outcome *o)
{
    write_with_flags(w, o, RWF_NOWAIT | FLAGS_UNKNOWN);
}

static void call_eventfd_write(world *w, outcome *o)
{
    o->result = eventfd_write(w->descriptor, 1);
}

/* This needs an empty counter. */
static void call_eventfd_write_most(world *w, outcome *o)
{
    o->result = eventfd_write(w->descriptor, UINT64_MAX - 1);
}

static void call_write(world *w, outcome *o)
{
    o->result = write(w->descriptor, "12345678", 8);
}

static void call_write_bad_address(world *w, outcome *o)
{
    void *volatile nowhere = (void *)8;
    o->result = write(w->descriptor, nowhere, 8);
}

static void call_write_nothing(world *w, outcome *o)
{
    o->result = write(w->descriptor, "", 0);
}

static void call_write_large(world *w, outcome *o)
{
    o->result = write(w->descriptor, large, sizeof large);
    note_if_partial(o, sizeof large);
}

static void call_writev_large(world *w, outcome *o)
{
    struct iovec vector[12];
    for (int i = 0; i < 12; i++)
        vector[i] = (struct iovec){large + i * 30000, 30000};
    o->result = writev(w->descriptor, vector, 12);
    note_if_partial(o, 360000);
}

static void call_pwrite(world *w, outcome *o)
{
    o->result = pwrite(w->descriptor, "12345678", 8, 30);
    o->detail[0] = lseek(w->descriptor, 0, SEEK_END);
}

static void call_send(world *w, outcome *o)
{
    o->result = send(w->descriptor, "12345678", 8, 0);
}

static void call_send_large(world *w, outcome *o)
{
    o->result = send(w->descriptor, large, sizeof large, MSG_NOSIGNAL);
    note_if_partial(o, sizeof large);
}

static void call_send_dontwait_large(world *w, outcome *o)
{
    o->result = send(w->descriptor, large, sizeof large, MSG_DONTWAIT);
    note_if_partial(o, sizeof large);
}

static void call_sendto(world *w, outcome *o)
{
    o->result = sendto(w->descriptor, "12345678", 8, 0, (struct sockaddr *)&w->peer_address, w->peer_address_size);
}

static void call_sendmsg_large(world *w, outcome *o)
{
    struct iovec vector[] = {{large, 100000}, {large, 0}, {large, 200000}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 3};
    o->result = sendmsg(w->descriptor, &message, 0);
    o->detail[0] = vector[0].iov_len == 100000 && vector[2].iov_base == large; /* the caller's vector is not touched */
    note_if_partial(o, 300000);
}

static void call_sendmsg_too_many_parts(world *w, outcome *o)
{
    struct iovec vector = {large, 4};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = SIZE_MAX};
    o->result = sendmsg(w->descriptor, &message, 0);
}

static void call_sendmmsg(world *w, outcome *o)
{
    struct iovec vectors[] = {{"1234", 4}, {"567890", 6}};
    struct mmsghdr messages[] = {{.msg_hdr = {.msg_iov = &vectors[0], .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = &vectors[1], .msg_iovlen = 1}}};
    o->result = sendmmsg(w->descriptor, messages, 2, 0);
    if (o->result > 0)
        o->detail[0] = messages[0].msg_len;
}

static void call_pwritev(world *w, outcome *o)
{
    struct iovec vector[] = {{"1234", 4}, {"5678", 4}};
    o->result = pwritev(w->descriptor, vector, 2, 5);
}

static const call calls[] = {
    {"pwritev", NEED_NOTHING, false, false, call_pwritev},
    {"write", NEED_WRITABLE, false, false, call_write},
    {"write_bad_address", NEED_WRITABLE, false, false, call_write_bad_address},
    {"write_nothing", NEED_WRITABLE, false, false, call_write_nothing},
    {"write_large", NEED_WRITABLE, false, false, call_write_large},
    {"pwritev2_here", NEED_WRITABLE, false, false, call_pwritev2_here},
    {"pwritev2_dsync", NEED_NOTHING, false, true, call_pwritev2_dsync},
    {"pwritev2_unknown", NEED_WRITABLE, false, false, call_pwritev2_unknown},
    {"pwritev2_of_disks", NEED_WRITABLE, false, true, call_pwritev2_of_disks},
    {"pwritev2_contradictory", NEED_WRITABLE, false, false, call_pwritev2_contradictory},
    {"pwritev2_of_files", NEED_WRITABLE, false, true, call_pwritev2_of_files},
    {"pwritev2_nowait_here", NEED_NOTHING, false, true, call_pwritev2_nowait_here},
    {"pwritev2_nowait_unknown", NEED_NOTHING, false, false, call_pwritev2_nowait_unknown},
    {"eventfd_write", NEED_WRITABLE, false, false, call_eventfd_write},
    {"eventfd_write_most", NEED_WRITABLE, false, false, call_eventfd_write_most},
    {"writev_large", NEED_WRITABLE, false, false, call_writev_large},
    {"pwrite", NEED_NOTHING, false, false, call_pwrite},
    {"send", NEED_WRITABLE, false, false, call_send},
    {"send_large", NEED_WRITABLE, false, false, call_send_large},
    {"send_dontwait_large", NEED_NOTHING, false, false, call_send_dontwait_large},
    {"sendto", NEED_WRITABLE, false, false, call_sendto},
    {"sendmsg_large", NEED_WRITABLE, false, false, call_sendmsg_large},
    {"sendmsg_too_many_parts", NEED_NOTHING, false, false, call_sendmsg_too_many_parts},
    {"sendmmsg", NEED_WRITABLE, false, false, call_sendmmsg},
};

const call_table output_calls = {calls, sizeof calls / sizeof *calls};
