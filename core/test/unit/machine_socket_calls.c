/* machine_socket_calls.c: calls on sockets of a simulated machine, and their errors, which are those of Linux. */
#include "machine_calls.h"

static int option(mr_machine *machine, int number, int name)
{
    long answer = 0;
    socklen_t size = sizeof answer;
    CHECK_EQ(mr_machine_getsockopt(machine, number, SOL_SOCKET, name, &answer, &size), 0);
    CHECK_EQ(size, sizeof(int));
    return (int)answer;
}

static void options_say_what_a_socket_is(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    int size = 5000, pair[2], answer = 7;
    socklen_t length = sizeof answer;
    (void)unused;
    int stream = bound_to(machine, AF_INET6, SOCK_STREAM, 80), messenger = bound_to(machine, AF_INET, SOCK_DGRAM, 80);
    CHECK_EQ(option(machine, stream, SO_DOMAIN), AF_INET6);
    CHECK_EQ(option(machine, stream, SO_TYPE), SOCK_STREAM);
    CHECK_EQ(option(machine, messenger, SO_TYPE), SOCK_DGRAM);
    CHECK_EQ(option(machine, stream, SO_PROTOCOL), IPPROTO_TCP);
    CHECK_EQ(option(machine, messenger, SO_PROTOCOL), IPPROTO_UDP);
    CHECK_EQ(option(machine, stream, SO_ACCEPTCONN), 0);
    CHECK_EQ(mr_machine_listen(machine, stream, 5), 0);
    CHECK_EQ(option(machine, stream, SO_ACCEPTCONN), 1);
    CHECK_EQ(mr_machine_listen(machine, messenger, 5), -EOPNOTSUPP);
    CHECK_EQ(mr_machine_socketpair(machine, AF_UNIX, SOCK_STREAM, 0, pair), 0);
    CHECK_EQ(option(machine, pair[0], SO_PROTOCOL), 0);
    CHECK_EQ(mr_machine_setsockopt(machine, pair[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    CHECK_EQ(option(machine, pair[1], SO_SNDBUF), size); /* a direction has one buffer */
    size = 6000;
    CHECK_EQ(mr_machine_setsockopt(machine, pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    CHECK_EQ(option(machine, pair[1], SO_RCVBUF), size);
    CHECK_EQ(mr_machine_setsockopt(machine, pair[0], IPPROTO_TCP, SO_RCVBUF, &size, sizeof size), 0);
    CHECK_EQ(option(machine, pair[0], SO_RCVBUF), 5000); /* that was another level's */
    size = 0;
    CHECK_EQ(mr_machine_setsockopt(machine, pair[0], SOL_SOCKET, SO_RCVBUF, &size, 1), 0);
    CHECK_EQ(mr_machine_setsockopt(machine, pair[0], SOL_SOCKET, SO_SNDBUF, &size, 1), 0);
    CHECK_EQ(option(machine, pair[0], SO_RCVBUF), 5000);
    CHECK_EQ(option(machine, stream, SO_SNDBUF), 0);
    CHECK_EQ(mr_machine_setsockopt(machine, stream, SOL_SOCKET, SO_SNDBUF, &pair[0], sizeof pair[0]),
             0); /* without a peer: no effect */
    CHECK_EQ(option(machine, stream, SO_SNDBUF), 0);
    CHECK_EQ(option(machine, stream, SO_KEEPALIVE), 0);
    CHECK_EQ(mr_machine_getsockopt(machine, stream, IPPROTO_TCP, 1, &answer, &length), 0);
    CHECK_EQ(answer, 0);
    mr_machine_destroy(machine);
}

/* Calls on a number that is not open, and on a descriptor that is not a socket. */
static void calls_on_what_is_no_socket(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    struct iovec element = bytes_of("x");
    endpoint p = endpoint_in(AF_INET, 80);
    int value = 1, counter = MUST(mr_machine_eventfd(machine, 0, 0));
    socklen_t size = sizeof value, length = p.length;
    (void)unused;
    const struct {
        int number, error;
    } cases[] = {{MR_MACHINE_FIRST + 50, -EBADF}, {3, -EBADF}, {counter, -ENOTSOCK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int number = cases[i].number, error = cases[i].error;
        CHECK_EQ(mr_machine_bind(machine, number, &p.of.any, p.length), error);
        CHECK_EQ(mr_machine_listen(machine, number, 5), error);
        CHECK_EQ(mr_machine_connect(machine, number, &p.of.any, p.length), error);
        CHECK_EQ(mr_machine_accept(machine, number, NULL, NULL, 0), error);
        CHECK_EQ(mr_machine_getsockname(machine, number, &p.of.any, &length), error);
        CHECK_EQ(mr_machine_getpeername(machine, number, &p.of.any, &length), error);
        CHECK_EQ(mr_machine_getsockopt(machine, number, SOL_SOCKET, SO_TYPE, &value, &size), error);
        CHECK_EQ(mr_machine_setsockopt(machine, number, SOL_SOCKET, SO_RCVBUF, &value, size), error);
        CHECK_EQ(mr_machine_shutdown(machine, number, SHUT_RD), error);
        CHECK_EQ(mr_machine_ended(machine, number), error);
        CHECK_EQ(mr_machine_send_to(machine, number, &element, 1, &p.of.any, p.length), error);
        CHECK_EQ(mr_machine_receive_from(machine, number, &element, 1, NULL, NULL), error);
    }
    CHECK_EQ(mr_machine_socket(machine, AF_APPLETALK, SOCK_STREAM, 0), -EAFNOSUPPORT);
    CHECK_EQ(mr_machine_socket(machine, AF_INET, SOCK_RAW, 0), -EAFNOSUPPORT);
    CHECK_EQ(mr_machine_socket(machine, AF_UNIX, SOCK_DGRAM, 0), -EAFNOSUPPORT);
    mr_machine_destroy(machine);
}

static void sockets_without_a_connection(uintptr_t unused)
{
    mr_machine *machine = new_machine(&(mr_machine_plan){.latency_ns = NS_PER_MS});
    endpoint found = {.length = sizeof found.of};
    (void)unused;
    int stream = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0)),
        local = MUST(mr_machine_socket(machine, AF_UNIX, SOCK_STREAM, 0));
    CHECK_EQ(receive_byte(machine, stream), -ENOTCONN);
    CHECK_EQ(send_text(machine, stream, "x"), -EPIPE);
    CHECK_EQ(send_text(machine, local, "x"), -ENOTCONN);
    CHECK_EQ(mr_machine_readable(machine, stream), 0); /* both would return an error */
    CHECK_EQ(mr_machine_writable(machine, stream), 0);
    CHECK_EQ(mr_machine_shutdown(machine, stream, SHUT_RD), -ENOTCONN);
    CHECK_EQ(mr_machine_shutdown(machine, stream, 17), -EINVAL);
    CHECK_EQ(mr_machine_getpeername(machine, stream, &found.of.any, &found.length), -ENOTCONN);
    CHECK_EQ(mr_machine_accept(machine, stream, NULL, NULL, 0), -EINVAL);
    CHECK_EQ(mr_machine_ended(machine, stream), 0);
    CHECK_EQ(connect_to(machine, stream, AF_UNIX, 1), -EAFNOSUPPORT);
    CHECK_EQ(connect_to(machine, stream, AF_INET, 80), -EINPROGRESS);
    CHECK_EQ(connect_to(machine, stream, AF_INET, 80), -EALREADY);
    CHECK_EQ(receive_byte(machine, stream), -EAGAIN);
    CHECK_EQ(send_text(machine, stream, "x"), -EAGAIN);
    CHECK_EQ(mr_machine_readable(machine, stream), -EAGAIN);
    CHECK_EQ(mr_machine_writable(machine, stream), -EAGAIN);
    mr_machine_sleep(machine, 10 * NS_PER_MS);
    CHECK_EQ(mr_machine_ended(machine, stream), 1);
    CHECK_EQ(option(machine, stream, SO_ERROR), ECONNREFUSED);
    CHECK_EQ(option(machine, stream, SO_ERROR), 0); /* it is reported once */
    int listener = bound_to(machine, AF_INET, SOCK_STREAM, 80);
    CHECK_EQ(mr_machine_listen(machine, listener, 5), 0);
    CHECK_EQ(mr_machine_readable(machine, listener), -EAGAIN);
    CHECK_EQ(connect_to(machine, listener, AF_INET, 80), -EINVAL);
    mr_machine_destroy(machine);
}

/* A connection over the network. ends[0] is the client. */
static void connect_pair(mr_machine *machine, int ends[2])
{
    int listener = bound_to(machine, AF_INET, SOCK_STREAM, 80);
    CHECK_EQ(mr_machine_listen(machine, listener, 1), 0);
    ends[0] = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0));
    CHECK_EQ(connect_to(machine, ends[0], AF_INET, 80), -EINPROGRESS);
    ends[1] = MUST(mr_machine_accept(machine, listener, NULL, NULL, 0));
    closed(machine, listener);
}

static void a_peer_that_is_gone(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    int ends[2];
    (void)unused;
    connect_pair(machine, ends);
    closed(machine, ends[1]);
    CHECK_EQ(mr_machine_ended(machine, ends[0]), 1);
    CHECK_EQ(receive_byte(machine, ends[0]), 0);
    CHECK_EQ(mr_machine_writable(machine, ends[0]), 0);
    CHECK_EQ(send_text(machine, ends[0], "x"), 1); /* the network has not yet reported that no socket receives it */
    CHECK_EQ(send_text(machine, ends[0], "x"), -EPIPE);
    closed(machine, ends[0]);
    connect_pair(machine, ends);
    CHECK_EQ(mr_machine_shutdown(machine, ends[1], SHUT_RD), 0);
    CHECK_EQ(receive_byte(machine, ends[1]), 0);
    CHECK_EQ(send_text(machine, ends[0], "xyz"), 3); /* ... and is dropped */
    CHECK_EQ(receive_byte(machine, ends[1]), 0);
    CHECK_EQ(mr_machine_shutdown(machine, ends[1], SHUT_RDWR), 0);
    CHECK_EQ(mr_machine_shutdown(machine, ends[1], SHUT_WR), 0);
    CHECK_EQ(send_text(machine, ends[1], "x"), -EPIPE);
    mr_machine_destroy(machine);
}

static void lingering_for_no_time_resets(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    int ends[2];
    (void)unused;
    for (int wait = 0; wait < 2; wait++) {
        struct linger linger = {.l_onoff = 1, .l_linger = wait};
        connect_pair(machine, ends);
        CHECK_EQ(mr_machine_setsockopt(machine, ends[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
        closed(machine, ends[1]);
        CHECK_EQ(receive_byte(machine, ends[0]), wait ? 0 : -ECONNRESET);
        closed(machine, ends[0]);
    }
    struct linger none = {.l_onoff = 0};
    connect_pair(machine, ends);
    CHECK_EQ(mr_machine_setsockopt(machine, ends[1], SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
    closed(machine, ends[1]);
    CHECK_EQ(receive_byte(machine, ends[0]), 0);
    mr_machine_destroy(machine);
}

static void a_listener_that_goes(uintptr_t close_it)
{
    mr_machine *machine = plain_machine();
    int listener = bound_to(machine, AF_INET, SOCK_STREAM, 80), clients[3];
    CHECK_EQ(mr_machine_listen(machine, listener, 0), 0);
    for (int i = 0; i < 3; i++) {
        clients[i] = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0));
        CHECK_EQ(connect_to(machine, clients[i], AF_INET, 80), -EINPROGRESS);
    }
    CHECK_EQ(connect_to(machine, clients[0], AF_INET, 80), 0);
    closed(machine, clients[2]); /* a client that waited and gave up */
    if (close_it)
        closed(machine, listener);
    else
        CHECK_EQ(mr_machine_shutdown(machine, listener, SHUT_RDWR), 0);
    CHECK_EQ(receive_byte(machine, clients[0]), -ECONNRESET); /* it was connected, and nobody had accepted it */
    CHECK_EQ(option(machine, clients[1], SO_ERROR), ECONNREFUSED);
    if (!close_it)
        CHECK_EQ(mr_machine_accept(machine, listener, NULL, NULL, 0), -EINVAL);
    mr_machine_destroy(machine);
}

static void pipes_have_a_direction(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    int ends[2];
    (void)unused;
    CHECK_EQ(mr_machine_pipe(machine, ends, O_NONBLOCK), 0);
    CHECK_EQ(mr_machine_fcntl(machine, ends[0], F_GETFL, 0), O_RDWR | O_NONBLOCK);
    CHECK_EQ(receive_byte(machine, ends[1]), -EBADF);
    CHECK_EQ(mr_machine_readable(machine, ends[1]), -EAGAIN);
    CHECK_EQ(receive_byte(machine, ends[0]), -EAGAIN);
    CHECK_EQ(send_text(machine, ends[1], ""), 0);
    CHECK_EQ(send_text(machine, ends[1], "x"), 1);
    CHECK_EQ(receive_byte(machine, ends[0]), 1);
    closed(machine, ends[0]);
    CHECK_EQ(mr_machine_readable(machine, ends[1]), 0); /* POLLERR (poll(2)) */
    CHECK_EQ(send_text(machine, ends[1], "x"), -EPIPE);
    CHECK_EQ(mr_machine_socketpair(machine, AF_INET, SOCK_STREAM, 0, ends), -EOPNOTSUPP);
    CHECK_EQ(mr_machine_socketpair(machine, AF_UNIX, SOCK_DGRAM, 0, ends), -EOPNOTSUPP);
    mr_machine_destroy(machine);
}

static void messengers_make_mistakes(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    static char much[70000];
    struct iovec element = bytes_of("x"), too_much = {much, sizeof much};
    endpoint to = endpoint_in(AF_INET, 80), back = {.length = sizeof back.of};
    (void)unused;
    int messenger = MUST(mr_machine_socket(machine, AF_INET, SOCK_DGRAM, 0)),
        receiver = bound_to(machine, AF_INET, SOCK_DGRAM, 80);
    CHECK_EQ(mr_machine_readable(machine, receiver), -EAGAIN);
    CHECK_EQ(mr_machine_send_to(machine, messenger, &too_much, 1, &to.of.any, to.length), -EMSGSIZE);
    CHECK_EQ(mr_machine_send_to(machine, messenger, &element, 1, NULL, 0), -EDESTADDRREQ);
    CHECK_EQ(mr_machine_send_to(machine, messenger, &element, 1, &to.of.any, 1), -EAFNOSUPPORT);
    CHECK_EQ(connect_to(machine, messenger, AF_INET6, 80), -EAFNOSUPPORT);
    CHECK_EQ(mr_machine_connect(machine, messenger, &to.of.any, 3), -EAFNOSUPPORT);
    CHECK_EQ(mr_machine_send_to(machine, messenger, &element, 1, &to.of.any, to.length), 1);
    CHECK_EQ(mr_machine_readable(machine, receiver), 0);
    CHECK_EQ(mr_machine_receive_from(machine, receiver, &element, 0, &back.of.any, &back.length), 0);
    CHECK_EQ(back.of.in.sin_addr.s_addr, htonl(INADDR_LOOPBACK)); /* the sender was bound to any address */
    CHECK_EQ(mr_machine_connect(machine, messenger, &to.of.any, to.length), 0);
    CHECK_EQ(mr_machine_shutdown(machine, messenger, SHUT_WR), 0);
    CHECK_EQ(send_text(machine, messenger, "x"), -EPIPE);
    CHECK_EQ(mr_machine_shutdown(machine, messenger, SHUT_RD), 0);
    CHECK_EQ(mr_machine_receive_from(machine, messenger, &element, 1, &back.of.any, &back.length), 0);
    mr_machine_destroy(machine);
}

static void streams_know_who_sends(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    char byte;
    struct iovec element = {&byte, 1}, text = bytes_of("x");
    endpoint to = endpoint_in(AF_INET, 9), from = {.length = sizeof from.of}, peer = {.length = sizeof peer.of};
    int ends[2];
    (void)unused;
    connect_pair(machine, ends);
    CHECK_EQ(mr_machine_send_to(machine, ends[0], &text, 1, &to.of.any, to.length), 1); /* the address is ignored */
    CHECK_EQ(mr_machine_receive_from(machine, ends[1], &element, 1, &from.of.any, &from.length), 1);
    CHECK_EQ(mr_machine_getsockname(machine, ends[0], &peer.of.any, &peer.length), 0);
    CHECK_EQ(from.of.in.sin_port, peer.of.in.sin_port);
    CHECK_EQ(mr_machine_receive_from(machine, ends[1], &element, 1, &from.of.any, &from.length), -EAGAIN);
    mr_machine_destroy(machine);
}

const harness_test machine_socket_calls_tests[] = {
    UNIT(machine_socket_calls, options_say_what_a_socket_is),
    UNIT(machine_socket_calls, calls_on_what_is_no_socket),
    UNIT(machine_socket_calls, sockets_without_a_connection),
    UNIT(machine_socket_calls, a_peer_that_is_gone),
    UNIT(machine_socket_calls, lingering_for_no_time_resets),
    {"machine_calls/a_listener_that_is_closed", a_listener_that_goes, true},
    {"machine_calls/a_listener_that_is_shut_down", a_listener_that_goes, false},
    UNIT(machine_socket_calls, pipes_have_a_direction),
    UNIT(machine_socket_calls, messengers_make_mistakes),
    UNIT(machine_socket_calls, streams_know_who_sends),
    {0},
};
