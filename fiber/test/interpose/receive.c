/* receive.c: how much a receive on a stream waits for. */
#include "interpose_test.h"

#include <sys/socket.h>
#include <sys/time.h>

typedef struct connection {
    int listener, client, server;
} connection;

/* With the smallest possible buffer on the server's side. */
static connection connect_on_loopback(void)
{
    connection c;
    int smallest = 1;
    struct sockaddr_in address;
    c.listener = listen_on_loopback(&address, 1);
    MUST(setsockopt(c.listener, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest));
    c.client = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(connect(c.client, (struct sockaddr *)&address, sizeof address));
    c.server = MUST(accept(c.listener, NULL, NULL));
    return c;
}

static void disconnect(connection *c)
{
    MUST(close(c->listener));
    MUST(close(c->client));
    MUST(close(c->server));
}

static void *receive_urgent(void *argument)
{
    char byte;
    CHECK_EQ(recv(*(int *)argument, &byte, 1, MSG_OOB), -1);
    return (void *)(intptr_t)errno;
}

/* None; then one that was announced but has not arrived, because the peer's window is full. */
static void urgent_data_is_not_waited_for(void)
{
    connection c = connect_on_loopback();
    static char much[60000];
    intptr_t error;
    CHECK_EQ((intptr_t)on_fiber(receive_urgent, &c.server), EINVAL);
    CHECK_EQ(send(c.client, much, sizeof much, 0), (ssize_t)sizeof much);
    CHECK_EQ(send(c.client, "!", 1, MSG_OOB), 1);
    while ((error = (intptr_t)on_fiber(receive_urgent, &c.server)) == EINVAL)
        usleep(1000);
    CHECK_EQ(error, EAGAIN);
    disconnect(&c);
}

static void *receive_the_end(void *argument)
{
    int descriptor = *(int *)argument;
    char byte;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    CHECK_EQ(recv(descriptor, &byte, 1, 0), 0);
    CHECK_EQ(recvfrom(descriptor, &byte, 1, 0, NULL, NULL), 0);
    CHECK_EQ(recvmsg(descriptor, &message, 0), 0);
    CHECK_EQ(read(descriptor, &byte, 1), 0);
    return NULL;
}

/* The kernel returns EAGAIN for ever to calls that do not wait. */
static void datagrams_have_an_end_after_a_shutdown(void)
{
    int ends[2];
    mr_fiber *receiver;
    MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
    CHECK_EQ(mr_fiber_spawn(&receiver, NULL, receive_the_end, &ends[0]), 0);
    usleep(20000);
    MUST(shutdown(ends[0], SHUT_RD));
    CHECK_EQ(mr_fiber_join(receiver, NULL), 0);
    MUST(close(ends[0]));
    MUST(close(ends[1]));
}

/* ------------------------------------------------------------------------------------------- not before so much --- */

enum { MARK = 10 };

typedef struct receiving {
    int descriptor;
    size_t wanted;
    int flags;
    bool reads;
} receiving;

static void *receive(void *argument)
{
    const receiving *r = argument;
    char bytes[64];
    return (void *)(r->reads ? read(r->descriptor, bytes, r->wanted) : recv(r->descriptor, bytes, r->wanted, r->flags));
}

/* Receives when three bytes have arrived and `later` bytes arrive later. */
static ssize_t receive_what_comes(const connection *c, receiving r, size_t later)
{
    r.descriptor = c->server;
    CHECK_EQ(send(c->client, "abc", 3, 0), 3);
    mr_fiber *fiber = spawn(receive, &r);
    let_fibers_park();
    if (later)
        CHECK_EQ(send(c->client, "0123456789", later, 0), (ssize_t)later);
    ssize_t received = (ssize_t)join(fiber);
    char rest[64];
    while (recv(c->server, rest, sizeof rest, MSG_DONTWAIT) > 0)
        ;
    return received;
}

/* Only a receive that should wait for it has a timeout: on a busy machine the rest may come late. */
static ssize_t receive_in_time(const connection *c, receiving r)
{
    struct timeval limit = {.tv_usec = 200000}, none = {0};
    MUST(setsockopt(c->server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    ssize_t received = receive_what_comes(c, r, 0);
    MUST(setsockopt(c->server, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));
    return received;
}

/* More nanoseconds than 64 bits can count. */
static void a_timeout_of_centuries(void)
{
    connection c = connect_on_loopback();
    struct timeval limit = {.tv_sec = 18446744073};
    MUST(setsockopt(c.server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    receiving r = {.descriptor = c.server, .wanted = 3};
    mr_fiber *fiber = spawn(receive, &r);
    let_fibers_park();
    CHECK_EQ(send(c.client, "abc", 3, 0), 3);
    CHECK_EQ((ssize_t)join(fiber), 3);
    disconnect(&c);
}

static void receive_to_the_mark(const connection *c)
{
    int mark = MARK;
    MUST(setsockopt(c->server, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark));
    for (int reads = 0; reads < 2; reads++) {
        CHECK_EQ(receive_what_comes(c, (receiving){.wanted = 50, .reads = reads}, MARK - 3), MARK);
        CHECK_EQ(receive_what_comes(c, (receiving){.wanted = 5, .reads = reads}, 2), 5);
        CHECK_EQ(receive_what_comes(c, (receiving){.wanted = 3, .reads = reads}, 0), 3);
        CHECK_EQ(receive_in_time(c, (receiving){.wanted = 50, .reads = reads}), 3);
    }
    CHECK_EQ(receive_what_comes(c, (receiving){.wanted = 6, .flags = MSG_WAITALL}, 3), 6);
    CHECK_EQ(receive_what_comes(c, (receiving){.wanted = 50, .flags = MSG_DONTWAIT}, 0), 3);
}

/* SO_RCVLOWAT: fewer bytes are no reason to return. */
static void a_low_mark_is_waited_for(void)
{
    connection tcp = connect_on_loopback(), local = {.listener = -1};
    pair p = new_pair();
    receive_to_the_mark(&tcp);
    local.client = p.ends[0];
    local.server = p.ends[1];
    receive_to_the_mark(&local);
    close_pair(&p);
    disconnect(&tcp);
}

/* ----------------------------------------------------------------------------------------------- looking at all --- */

static void looking_at_all_ends_in_time(void)
{
    connection tcp = connect_on_loopback(), local = {.listener = -1};
    pair p = new_pair();
    const receiving all = {.wanted = 5, .flags = MSG_PEEK | MSG_WAITALL};
    CHECK_EQ(receive_what_comes(&tcp, all, 2), 5);
    CHECK_EQ(receive_in_time(&tcp, all), 3);
    local.client = p.ends[0];
    local.server = p.ends[1];
    CHECK_EQ(receive_what_comes(&local, all, 0), 3); /* Unix sockets do not wait for the rest */
    close_pair(&p);
    disconnect(&tcp);
}

/* ------------------------------------------------------------------------------------------ a part, and a reset --- */

static void *receive_until_reset(void *argument)
{
    char bytes[10];
    int descriptor = *(int *)argument;
    CHECK_EQ(recv(descriptor, bytes, sizeof bytes, MSG_WAITALL), 3);
    CHECK_EQ(recv(descriptor, bytes, sizeof bytes, MSG_WAITALL), -1);
    CHECK_EQ(errno, ECONNRESET);
    CHECK_EQ(recv(descriptor, bytes, sizeof bytes, MSG_WAITALL), 0);
    return NULL;
}

/* This call returns the part, the next one the error. */
static void waiting_for_all_leaves_the_error(void)
{
    connection c = connect_on_loopback();
    struct linger at_once = {.l_onoff = 1};
    mr_fiber *fiber = spawn(receive_until_reset, &c.server);
    CHECK_EQ(send(c.client, "abc", 3, 0), 3);
    let_fibers_park();
    MUST(setsockopt(c.client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
    MUST(close(c.client));
    join(fiber);
    MUST(close(c.server));
    MUST(close(c.listener));
}

static int new_datagram_socket(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int own = MUST(socket(AF_INET, SOCK_DGRAM, 0));
    MUST(bind(own, (struct sockaddr *)address, size));
    MUST(getsockname(own, (struct sockaddr *)address, &size));
    return own;
}

static void *receive_two_datagrams(void *argument)
{
    char bytes[2];
    struct iovec vectors[] = {{bytes, 1}, {bytes + 1, 1}};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &vectors[0], .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = &vectors[1], .msg_iovlen = 1}}};
    CHECK_EQ(recvmmsg(*(int *)argument, messages, 2, 0, NULL), 1);
    CHECK_EQ(recv(*(int *)argument, bytes, 1, 0), -1);
    CHECK_EQ(errno, ECONNREFUSED);
    return NULL;
}

/* The peer is gone, and has answered the bytes that were sent meanwhile with a reset. */
static void an_error_after_a_datagram_is_the_next_calls(void)
{
    struct sockaddr_in address, peers_address;
    int own = new_datagram_socket(&address), peer = new_datagram_socket(&peers_address);
    MUST(connect(own, (struct sockaddr *)&peers_address, sizeof peers_address));
    MUST(connect(peer, (struct sockaddr *)&address, sizeof address));
    MUST(send(peer, "x", 1, 0));
    MUST(close(peer));
    mr_fiber *fiber = spawn(receive_two_datagrams, &own);
    let_fibers_park();
    MUST(send(own, "x", 1, 0));
    join(fiber);
    MUST(close(own));
}

enum { MANY = 1100, MOST = 1024 };

static void *send_many(void *argument)
{
    static struct mmsghdr messages[MANY];
    static struct iovec vector = {"x", 1};
    for (int i = 0; i < MANY; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &vector, .msg_iovlen = 1};
    CHECK_EQ(sendmmsg(*(int *)argument, messages, MANY, 0), MOST);
    return NULL;
}

static void more_messages_than_are_sent_at_once(void)
{
    struct sockaddr_in address;
    int own = new_datagram_socket(&address);
    MUST(connect(own, (struct sockaddr *)&address, sizeof address));
    on_fiber(send_many, &own);
    MUST(close(own));
}

const fiber_case receive_cases[] = {
    CASE(a_timeout_of_centuries),
    CASE(a_low_mark_is_waited_for),
    CASE(looking_at_all_ends_in_time),
    CASE(waiting_for_all_leaves_the_error),
    CASE(urgent_data_is_not_waited_for),
    CASE(datagrams_have_an_end_after_a_shutdown),
    CASE(an_error_after_a_datagram_is_the_next_calls),
    CASE(more_messages_than_are_sent_at_once),
    {0},
};
