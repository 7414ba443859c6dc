/* input_calls.c: read, recv and their relatives. */
#include "calls.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* The fortified and old names of functions, which compilers use. */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);

static void call_read(world *w, outcome *o)
{
    o->result = read(w->descriptor, o->data, DATA_BYTES);
}

static void call_read_little(world *w, outcome *o)
{
    o->result = read(w->descriptor, o->data, 8);
}

static void call_read_nothing(world *w, outcome *o)
{
    o->result = read(w->descriptor, o->data, 0);
}

static void call_read_bad_address(world *w, outcome *o)
{
    void *volatile nowhere = (void *)8; /* volatile: hides the address from the compiler */
    o->result = read(w->descriptor, nowhere, 16);
}

static void call_read_chk(world *w, outcome *o)
{
    o->result = __read_chk(w->descriptor, o->data, DATA_BYTES, DATA_BYTES);
}

static void call_readv(world *w, outcome *o)
{
    struct iovec vector[] = {{o->data, 8}, {o->data + 8, 0}, {o->data + 8, DATA_BYTES - 8}};
    o->result = readv(w->descriptor, vector, 3);
}

static void call_readv_wrong_count(world *w, outcome *o)
{
    struct iovec vector = {o->data, 8};
    volatile int count = -1;
    o->result = readv(w->descriptor, &vector, count);
}

static void call_pread(world *w, outcome *o)
{
    o->result = pread(w->descriptor, o->data, 8, 5);
}

static void call_pread_negative(world *w, outcome *o)
{
    o->result = pread(w->descriptor, o->data, 8, -1);
}

static void call_preadv2_here(world *w, outcome *o)
{
    struct iovec vector[] = {{o->data, 8}, {o->data + 8, DATA_BYTES - 8}};
    o->result = preadv2(w->descriptor, vector, 2, -1, 0);
}

static void call_preadv2_nowait(world *w, outcome *o)
{
    struct iovec vector = {o->data, 8};
    o->result = preadv2(w->descriptor, &vector, 1, 0, RWF_NOWAIT);
}

static void read_with_flags(world *w, outcome *o, int flags)
{
    struct iovec vector = {o->data, 8};
    o->result = preadv2(w->descriptor, &vector, 1, -1, flags);
}

static void call_preadv2_unknown(world *w, outcome *o)
{
    read_with_flags(w, o, FLAGS_UNKNOWN);
}

static void call_preadv2_of_disks(world *w, outcome *o)
{
    read_with_flags(w, o, FLAGS_OF_DISKS);
}

static void call_preadv2_contradictory(world *w, outcome *o)
{
    read_with_flags(w, o, FLAGS_CONTRADICTORY);
}

static void call_preadv2_of_files(world *w, outcome *o)
{
    read_with_flags(w, o, FLAGS_OF_FILES);
}

static void call_preadv2_nowait_here(world *w, outcome *o)
{
    read_with_flags(w, o, RWF_NOWAIT);
}

static void call_preadv2_nowait_unknown(world *w, outcome *o)
{
    read_with_flags(w, o, RWF_NOWAIT | FLAGS_UNKNOWN);
}

static void call_eventfd_read(world *w, outcome *o)
{
    eventfd_t value = 0;
    o->result = eventfd_read(w->descriptor, &value);
    o->detail[0] = (long)value;
}

static void call_recv(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, DATA_BYTES, 0);
}

static void call_recv_chk(world *w, outcome *o)
{
    o->result = __recv_chk(w->descriptor, o->data, DATA_BYTES, DATA_BYTES, 0);
}

static void call_recv_dontwait(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, DATA_BYTES, MSG_DONTWAIT);
}

static void call_recv_peek_twice(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, 4, MSG_PEEK);
    if (o->result > 0)
        o->detail[0] = recv(w->descriptor, o->data + 4, 8, MSG_PEEK);
    if (o->result > 0)
        o->detail[1] = recv(w->descriptor, o->data + 16, 8, 0);
}

/* Receives the bytes that are there and those that help sends. */
static void call_recv_waitall(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, 20, MSG_WAITALL);
}

static void call_recv_oob(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, 1, MSG_OOB);
}

static void call_recv_errqueue(world *w, outcome *o)
{
    o->result = recv(w->descriptor, o->data, 8, MSG_ERRQUEUE);
}

static void call_recvfrom(world *w, outcome *o)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    o->result = recvfrom(w->descriptor, o->data, 4, 0, (struct sockaddr *)&address, &size);
    o->detail[0] = size;
    o->detail[1] = address.ss_family;
}

static void call_recvmsg_truncated(world *w, outcome *o)
{
    struct iovec vector[] = {{o->data, 2}, {o->data + 2, 1}};
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = 2};
    o->result = recvmsg(w->descriptor, &message, 0);
    if (o->result >= 0)
        o->detail[0] = message.msg_flags;
}

static void call_recvmsg_too_many_parts(world *w, outcome *o)
{
    struct iovec vector = {o->data, 4};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = SIZE_MAX};
    o->result = recvmsg(w->descriptor, &message, 0);
}

static void call_recvmmsg(world *w, outcome *o)
{
    struct iovec vectors[] = {{o->data, 8}, {o->data + 8, 24}};
    struct mmsghdr messages[] = {{.msg_hdr = {.msg_iov = &vectors[0], .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = &vectors[1], .msg_iovlen = 1}}};
    o->result = recvmmsg(w->descriptor, messages, 2, MSG_WAITFORONE, NULL);
    if (o->result > 0)
        o->detail[0] = messages[0].msg_len;
    if (o->result > 1)
        o->detail[1] = messages[1].msg_len;
}

static void call_pread_chk(world *w, outcome *o)
{
    o->result = __pread_chk(w->descriptor, o->data, 8, 5, DATA_BYTES);
}

static void call_preadv(world *w, outcome *o)
{
    struct iovec vector[] = {{o->data, 4}, {o->data + 4, 4}};
    o->result = preadv(w->descriptor, vector, 2, 5);
}

static void call_recvfrom_chk(world *w, outcome *o)
{
    o->result = __recvfrom_chk(w->descriptor, o->data, DATA_BYTES, DATA_BYTES, 0, NULL, NULL);
}

static const call calls[] = {
    {"read", NEED_READABLE, false, false, call_read},
    {"read_little", NEED_READABLE, false, false, call_read_little},
    {"read_nothing", NEED_NOTHING, false, false, call_read_nothing},
    {"read_bad_address", NEED_READABLE, false, false, call_read_bad_address},
    {"read_chk", NEED_READABLE, false, false, call_read_chk},
    {"readv", NEED_READABLE, false, false, call_readv},
    {"readv_wrong_count", NEED_NOTHING, false, false, call_readv_wrong_count},
    {"pread", NEED_NOTHING, false, false, call_pread},
    {"pread_negative", NEED_NOTHING, false, false, call_pread_negative},
    {"pread_chk", NEED_NOTHING, false, false, call_pread_chk},
    {"preadv", NEED_NOTHING, false, false, call_preadv},
    {"recvfrom_chk", NEED_READABLE, false, false, call_recvfrom_chk},
    {"recv", NEED_READABLE, false, false, call_recv},
    {"preadv2_here", NEED_READABLE, false, false, call_preadv2_here},
    {"preadv2_nowait", NEED_NOTHING, false, false, call_preadv2_nowait},
    {"preadv2_unknown", NEED_READABLE, false, false, call_preadv2_unknown},
    {"preadv2_of_disks", NEED_READABLE, false, true, call_preadv2_of_disks},
    {"preadv2_contradictory", NEED_READABLE, false, false, call_preadv2_contradictory},
    {"preadv2_of_files", NEED_READABLE, false, false, call_preadv2_of_files},
    {"preadv2_nowait_here", NEED_NOTHING, false, false, call_preadv2_nowait_here},
    {"preadv2_nowait_unknown", NEED_NOTHING, false, false, call_preadv2_nowait_unknown},
    {"eventfd_read", NEED_READABLE, false, false, call_eventfd_read},
    {"recv_chk", NEED_READABLE, false, false, call_recv_chk},
    {"recv_dontwait", NEED_NOTHING, false, false, call_recv_dontwait},
    {"recv_peek_twice", NEED_READABLE, false, false, call_recv_peek_twice},
    {"recv_waitall", NEED_READABLE, false, false, call_recv_waitall},
    {"recv_oob", NEED_READABLE, false, false, call_recv_oob},
    {"recv_errqueue", NEED_READABLE, false, false, call_recv_errqueue},
    {"recvfrom", NEED_READABLE, false, false, call_recvfrom},
    {"recvmsg_truncated", NEED_READABLE, false, false, call_recvmsg_truncated},
    {"recvmsg_too_many_parts", NEED_NOTHING, false, false, call_recvmsg_too_many_parts},
    {"recvmmsg", NEED_READABLE, false, false, call_recvmmsg},
};

const call_table input_calls = {calls, sizeof calls / sizeof *calls};
