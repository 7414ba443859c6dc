/* machine_calls.c: the calls of a simulated machine and their errors, which are those of Linux, one call at a time. */
#include "../../src/machine/machine.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define NS_PER_MS UINT64_C(1000000)

static mr_machine *new_machine(const mr_machine_plan *plan)
{
    mr_machine *machine;
    CHECK_EQ(mr_machine_create(plan, &machine), 0);
    return machine;
}

static mr_machine *plain_machine(void)
{
    return new_machine(&(mr_machine_plan){.seed = 3});
}

static struct iovec bytes_of(const char *text)
{
    return (struct iovec){(void *)(uintptr_t)text, strlen(text)};
}

static ssize_t send_text(mr_machine *machine, int number, const char *text)
{
    struct iovec element = bytes_of(text);
    return mr_machine_send(machine, number, &element, 1, 0);
}

static ssize_t receive_byte(mr_machine *machine, int number)
{
    char byte;
    struct iovec element = {&byte, 1};
    return mr_machine_receive(machine, number, &element, 1, 0);
}

static void closed(mr_machine *machine, int number)
{
    CHECK_EQ(mr_machine_close(machine, number), 0);
}

/* --------------------------------------------------------------------------------------------------- addresses --- */

/* An address of any family; `port` is a port, or makes a path of a Unix socket. */
typedef struct place {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } of;
    socklen_t length;
} place;

static place place_in(int family, in_port_t port)
{
    place p = {.of.any.sa_family = (sa_family_t)family};
    if (family == AF_INET) {
        p.of.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        p.of.in.sin_port = htons(port);
        p.length = sizeof p.of.in;
    } else if (family == AF_INET6) {
        p.of.in6.sin6_addr = in6addr_loopback;
        p.of.in6.sin6_port = htons(port);
        p.length = sizeof p.of.in6;
    } else {
        int length = port ? snprintf(p.of.un.sun_path, sizeof p.of.un.sun_path, "/socket%u", port) : 0;
        p.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
    }
    return p;
}

static int bound_to(mr_machine *machine, int family, int type, in_port_t port)
{
    place p = place_in(family, port);
    int number = MUST(mr_machine_socket(machine, family, type, 0));
    CHECK_EQ(mr_machine_bind(machine, number, &p.of.any, p.length), 0);
    return number;
}

static int bind_anew(mr_machine *machine, int number, int family, in_port_t port)
{
    place p = place_in(family, port);
    return mr_machine_bind(machine, number, &p.of.any, p.length);
}

static int connect_to(mr_machine *machine, int number, int family, in_port_t port)
{
    place p = place_in(family, port);
    return mr_machine_connect(machine, number, &p.of.any, p.length);
}

static void addresses_that_cannot_be_bound(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    (void)unused;
    int first = bound_to(machine, AF_INET, SOCK_STREAM, 80),
        other = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0));
    CHECK_EQ(bind_anew(machine, first, AF_INET, 81), -EINVAL);
    CHECK_EQ(bind_anew(machine, other, AF_INET, 80), -EADDRINUSE);
    CHECK_EQ(bind_anew(machine, other, AF_INET6, 80), -EAFNOSUPPORT);
    CHECK_EQ(bind_anew(machine, other, AF_UNIX, 1), -EAFNOSUPPORT);
    CHECK_EQ(mr_machine_bind(machine, other, (struct sockaddr *)&path, sizeof path + 1), -EINVAL);
    CHECK_EQ(mr_machine_bind(machine, other, (struct sockaddr *)&path, 1), -EINVAL);
    place cut = place_in(AF_INET, 82);
    CHECK_EQ(mr_machine_bind(machine, other, &cut.of.any, cut.length - 1), -EAFNOSUPPORT);
    place cut6 = place_in(AF_INET6, 82);
    CHECK_EQ(mr_machine_bind(machine, other, &cut6.of.any, cut6.length - 1), -EAFNOSUPPORT);
    CHECK_EQ(bind_anew(machine, 7, AF_INET, 80), -EBADF);
    closed(machine, first);
    CHECK_EQ(bind_anew(machine, other, AF_INET, 80), 0); /* it is free again */
    mr_machine_destroy(machine);
}

static void a_port_that_two_share(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    int yes = 1, answer = 0, listeners[2], chosen[2] = {0};
    socklen_t size = sizeof answer;
    (void)unused;
    for (int i = 0; i < 2; i++) {
        listeners[i] = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0));
        CHECK_EQ(mr_machine_setsockopt(machine, listeners[i], SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes), 0);
        CHECK_EQ(mr_machine_getsockopt(machine, listeners[i], SOL_SOCKET, SO_REUSEPORT, &answer, &size), 0);
        CHECK_EQ(answer, 1);
        CHECK_EQ(bind_anew(machine, listeners[i], AF_INET, 80), 0);
        CHECK_EQ(mr_machine_listen(machine, listeners[i], 100), 0);
    }
    int third = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0));
    CHECK_EQ(bind_anew(machine, third, AF_INET, 80), -EADDRINUSE); /* it does not share */
    for (int i = 0; i < 40; i++)
        CHECK_EQ(connect_to(machine, MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0)), AF_INET, 80),
                 -EINPROGRESS);
    for (int i = 0; i < 2; i++)
        while (mr_machine_accept(machine, listeners[i], NULL, NULL, 0) >= 0)
            chosen[i]++;
    mr_machine_destroy(machine);
    CHECK_EQ(chosen[0] + chosen[1], 40);
    CHECK_GT(chosen[0], 5);
    CHECK_GT(chosen[1], 5);
}

static void who_hears_what_is_sent_to_any_address(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    place any4 = place_in(AF_INET, 80), any6 = place_in(AF_INET6, 81);
    (void)unused;
    any4.of.in.sin_addr.s_addr = htonl(INADDR_ANY);
    any6.of.in6.sin6_addr = in6addr_any;
    int of4 = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0)),
        of6 = MUST(mr_machine_socket(machine, AF_INET6, SOCK_STREAM, 0));
    CHECK_EQ(mr_machine_bind(machine, of4, &any4.of.any, any4.length), 0);
    CHECK_EQ(mr_machine_bind(machine, of6, &any6.of.any, any6.length), 0);
    CHECK_EQ(mr_machine_listen(machine, of4, 5), 0);
    CHECK_EQ(mr_machine_listen(machine, of6, 5), 0);
    const struct {
        int family;
        in_port_t port;
        int listener; /* 0: nobody */
    } cases[] = {{AF_INET, 80, of4}, {AF_INET6, 80, 0}, {AF_INET6, 81, of6}, {AF_INET, 81, of6}, {AF_INET, 82, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int client = MUST(mr_machine_socket(machine, cases[i].family, SOCK_STREAM, 0));
        CHECK_EQ(connect_to(machine, client, cases[i].family, cases[i].port), -EINPROGRESS);
        if (cases[i].listener)
            CHECK_GE(mr_machine_accept(machine, cases[i].listener, NULL, NULL, 0), MR_MACHINE_FIRST);
        else
            CHECK_EQ(connect_to(machine, client, cases[i].family, cases[i].port), -ECONNREFUSED);
        closed(machine, client);
    }
    mr_machine_destroy(machine);
}

static void unix_sockets_have_paths(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    place found = {.length = sizeof found.of};
    (void)unused;
    int listener = bound_to(machine, AF_UNIX, SOCK_STREAM, 1),
        same = MUST(mr_machine_socket(machine, AF_UNIX, SOCK_STREAM, 0));
    CHECK_EQ(bind_anew(machine, same, AF_UNIX, 1), -EADDRINUSE);
    CHECK_EQ(connect_to(machine, same, AF_UNIX, 1), -ECONNREFUSED); /* it is bound, and does not listen */
    CHECK_EQ(connect_to(machine, same, AF_UNIX, 2), -ENOENT);
    CHECK_EQ(connect_to(machine, same, AF_UNIX, 0), -ECONNREFUSED);
    CHECK_EQ(connect_to(machine, same, AF_INET, 2), -EAFNOSUPPORT);
    CHECK_EQ(bind_anew(machine, same, AF_UNIX, 3), 0);
    CHECK_EQ(mr_machine_listen(machine, listener, 0), 0);
    CHECK_EQ(connect_to(machine, same, AF_UNIX, 1), 0);
    CHECK_EQ(connect_to(machine, same, AF_UNIX, 1), -EISCONN);
    int late = MUST(mr_machine_socket(machine, AF_UNIX, SOCK_STREAM, 0));
    CHECK_EQ(connect_to(machine, late, AF_UNIX, 1), -EAGAIN); /* the queue is full */
    int server = MUST(mr_machine_accept(machine, listener, &found.of.any, &found.length, 0));
    CHECK_EQ(found.length, place_in(AF_UNIX, 3).length);
    CHECK_EQ(memcmp(found.of.un.sun_path, "/socket3", 8), 0);
    found.length = sizeof found.of;
    CHECK_EQ(mr_machine_getpeername(machine, same, &found.of.any, &found.length), 0);
    CHECK_EQ(found.length, place_in(AF_UNIX, 1).length);
    CHECK_EQ(memcmp(found.of.un.sun_path, "/socket1", 8), 0);
    CHECK_EQ(mr_machine_bind(machine, late, &found.of.any, sizeof(sa_family_t)),
             0); /* a name that the system chooses */
    CHECK_EQ(mr_machine_getsockname(machine, late, &found.of.any, &found.length), 0);
    CHECK_EQ(found.of.un.sun_path[0], 0);
    closed(machine, server);
    CHECK_EQ(send_text(machine, same, "x"), -EPIPE);
    mr_machine_destroy(machine);
}

static void addresses_of_version_6(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    place found = {.length = sizeof found.of};
    (void)unused;
    int listener = bound_to(machine, AF_INET6, SOCK_STREAM, 0),
        client = MUST(mr_machine_socket(machine, AF_INET6, SOCK_STREAM, 0));
    CHECK_EQ(mr_machine_listen(machine, listener, -1), 0);
    CHECK_EQ(mr_machine_getsockname(machine, listener, &found.of.any, &found.length), 0);
    CHECK_EQ(found.length, sizeof found.of.in6);
    in_port_t port = ntohs(found.of.in6.sin6_port);
    CHECK_GT(port, 0); /* chosen */
    CHECK_EQ(connect_to(machine, client, AF_INET6, port), -EINPROGRESS);
    CHECK_EQ(connect_to(machine, client, AF_INET6, port), 0);
    int server = MUST(mr_machine_accept(machine, listener, &found.of.any, &found.length, SOCK_NONBLOCK));
    CHECK(IN6_IS_ADDR_V4MAPPED(&found.of.in6.sin6_addr));
    CHECK_EQ(mr_machine_fcntl(machine, server, F_GETFL, 0), O_RDWR | O_NONBLOCK);
    CHECK_EQ(mr_machine_getpeername(machine, client, &found.of.any, &found.length), 0);
    CHECK_EQ(ntohs(found.of.in6.sin6_port), port);
    mr_machine_destroy(machine);
}

/* ----------------------------------------------------------------------------------------------------- sockets --- */

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

/* What a call does with a number that is open nowhere, and with one that is no socket. */
static void calls_on_what_is_no_socket(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    struct iovec element = bytes_of("x");
    place p = place_in(AF_INET, 80);
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
    place found = {.length = sizeof found.of};
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
    CHECK_EQ(option(machine, stream, SO_ERROR), 0); /* it is told once */
    int listener = bound_to(machine, AF_INET, SOCK_STREAM, 80);
    CHECK_EQ(mr_machine_listen(machine, listener, 5), 0);
    CHECK_EQ(mr_machine_readable(machine, listener), -EAGAIN);
    CHECK_EQ(connect_to(machine, listener, AF_INET, 80), -EINVAL);
    mr_machine_destroy(machine);
}

/* A connection over the network, of which the client is ends[0]. */
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
    CHECK_EQ(send_text(machine, ends[0], "x"), 1); /* the network has not yet said that nobody takes it */
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
    place to = place_in(AF_INET, 80), back = {.length = sizeof back.of};
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
    place to = place_in(AF_INET, 9), from = {.length = sizeof from.of}, peer = {.length = sizeof peer.of};
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

/* ----------------------------------------------------------------------------------------------------- numbers --- */

static void numbers_run_out(uintptr_t unused)
{
    mr_machine *machine = new_machine(&(mr_machine_plan){.descriptors_max = 3});
    int ends[2];
    mr_machine_state state;
    (void)unused;
    int first = MUST(mr_machine_eventfd(machine, 1, 0));
    MUST(mr_machine_eventfd(machine, 1, 0));
    CHECK_EQ(mr_machine_pipe(machine, ends, 0), -EMFILE); /* there is room for one end */
    mr_machine_inspect(machine, &state);
    CHECK_EQ(state.open_descriptors, 2);
    int third = MUST(mr_machine_eventfd(machine, 1, 0));
    CHECK_EQ(mr_machine_eventfd(machine, 1, 0), -EMFILE);
    CHECK_EQ(mr_machine_pipe(machine, ends, 0), -EMFILE);
    CHECK_EQ(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0), -EMFILE);
    CHECK_EQ(mr_machine_file(machine), -EMFILE);
    CHECK_EQ(mr_machine_open(machine, "f", O_RDWR | O_CREAT), -EMFILE);
    CHECK_EQ(mr_machine_fcntl(machine, first, F_DUPFD_CLOEXEC, 0), -EMFILE);
    CHECK_EQ(mr_machine_dup3(machine, first, third, 0), third); /* takes the place of another */
    mr_machine_destroy(machine);
    machine = plain_machine();
    CHECK_GT(mr_machine_limit(machine), MR_MACHINE_FIRST);
    mr_machine_set_limit(machine, MR_MACHINE_FIRST + 1);
    MUST(mr_machine_eventfd(machine, 1, 0));
    CHECK_EQ(mr_machine_eventfd(machine, 1, 0), -EMFILE);
    mr_machine_destroy(machine);
}

static void a_connection_waits_for_a_number(uintptr_t unused)
{
    mr_machine *machine = new_machine(&(mr_machine_plan){.descriptors_max = 2});
    int listener = bound_to(machine, AF_INET, SOCK_STREAM, 80);
    int client = MUST(mr_machine_socket(machine, AF_INET, SOCK_STREAM, 0));
    (void)unused;
    CHECK_EQ(mr_machine_listen(machine, listener, 5), 0);
    CHECK_EQ(connect_to(machine, client, AF_INET, 80), -EINPROGRESS);
    CHECK_EQ(mr_machine_accept(machine, listener, NULL, NULL, 0), -EMFILE);
    closed(machine, client);
    CHECK_GE(mr_machine_accept(machine, listener, NULL, NULL, 0), MR_MACHINE_FIRST);
    CHECK_EQ(mr_machine_accept(machine, listener, NULL, NULL, 0), -EAGAIN);
    mr_machine_destroy(machine);
}

static void numbers_are_duplicated(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    uint64_t value = 0;
    struct iovec element = {&value, sizeof value}, little = {&value, 1};
    int counter = MUST(mr_machine_eventfd(machine, 5, 0));
    (void)unused;
    int copy = MUST(mr_machine_fcntl(machine, counter, F_DUPFD_CLOEXEC, MR_MACHINE_FIRST + 20));
    CHECK_EQ(copy, MR_MACHINE_FIRST + 20);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_DUPFD_CLOEXEC, MR_MACHINE_FIRST + 20), MR_MACHINE_FIRST + 21);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_DUPFD_CLOEXEC, 3), MR_MACHINE_FIRST + 3);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_DUPFD_CLOEXEC, 1 << 24), -EINVAL);
    CHECK_EQ(mr_machine_dup3(machine, counter, MR_MACHINE_FIRST + 10, 0), MR_MACHINE_FIRST + 10);
    CHECK_EQ(mr_machine_dup3(machine, counter, counter, 0), -EINVAL);
    CHECK_EQ(mr_machine_dup3(machine, counter, 3, 0), -EBADF);
    CHECK_EQ(mr_machine_dup3(machine, counter, 1 << 24, 0), -EBADF);
    CHECK_EQ(mr_machine_dup3(machine, 3, MR_MACHINE_FIRST + 10, 0), -EBADF);
    CHECK_EQ(mr_machine_fcntl(machine, 3, F_GETFD, 0), -EBADF);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_GETFD, 0), FD_CLOEXEC);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_SETFD, 0), 0);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_GETLK, 0), -EINVAL);
    CHECK_EQ(mr_machine_fcntl(machine, copy, F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_GETFL, 0), O_RDWR | O_NONBLOCK); /* of the file, not of the number */
    CHECK_EQ(mr_machine_fcntl(machine, copy, F_SETFL, 0), 0);
    CHECK_EQ(mr_machine_fcntl(machine, counter, F_GETFL, 0), O_RDWR);
    closed(machine, counter);
    CHECK_EQ(mr_machine_receive(machine, copy, &little, 1, 0), -EINVAL);
    CHECK_EQ(mr_machine_send(machine, copy, &little, 1, 0), -EINVAL);
    CHECK_EQ(mr_machine_readable(machine, copy), 0);
    CHECK_EQ(mr_machine_writable(machine, copy), 0);
    CHECK_EQ(mr_machine_receive(machine, copy, &element, 1, 0), 8); /* it lives as long as one of its numbers */
    CHECK_EQ(value, 5);
    CHECK_EQ(mr_machine_readable(machine, copy), -EAGAIN);
    CHECK_EQ(mr_machine_receive(machine, copy, &element, 1, 0), -EAGAIN);
    CHECK_EQ(mr_machine_receive(machine, 3, &element, 1, 0), -EBADF);
    CHECK_EQ(mr_machine_send(machine, 3, &element, 1, 0), -EBADF);
    CHECK_EQ(mr_machine_readable(machine, 3), -EBADF);
    CHECK_EQ(mr_machine_writable(machine, 3), -EBADF);
    CHECK_EQ(mr_machine_close(machine, counter), -EBADF);
    mr_machine_destroy(machine);
}

/* ------------------------------------------------------------------------------------------------------- files --- */

static void files_have_a_position(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    char found[8] = {0};
    struct iovec element = {found, sizeof found};
    mr_machine_status status;
    (void)unused;
    int file = MUST(mr_machine_open(machine, "f", O_RDWR | O_CREAT)),
        end = MUST(mr_machine_open(machine, "f", O_WRONLY | O_APPEND));
    int reader = MUST(mr_machine_open(machine, "f", O_RDONLY));
    CHECK_EQ(send_text(machine, file, "abc"), 3);
    CHECK_EQ(send_text(machine, end, "de"), 2);
    CHECK_EQ(send_text(machine, file, "D"), 1); /* where it was */
    CHECK_EQ(mr_machine_seek(machine, file, 0, SEEK_SET), 0);
    CHECK_EQ(mr_machine_receive(machine, file, &element, 1, 0), 5);
    CHECK_MEMORY(found, "abcDe", 5);
    CHECK_EQ(mr_machine_receive(machine, file, &element, 1, 0), 0);
    CHECK_EQ(mr_machine_seek(machine, file, -2, SEEK_CUR), 3);
    CHECK_EQ(mr_machine_seek(machine, file, 2, SEEK_END), 7);
    CHECK_EQ(mr_machine_seek(machine, file, -1, SEEK_SET), -EINVAL);
    CHECK_EQ(send_text(machine, file, ""), 0);
    CHECK_EQ(mr_machine_size(machine, file), 5);
    CHECK_EQ(mr_machine_truncate(machine, file, 2), 0);
    CHECK_EQ(mr_machine_truncate(machine, file, 2), 0);
    CHECK_EQ(mr_machine_truncate(machine, file, 4), 0);
    CHECK_EQ(mr_machine_pread(machine, file, found, sizeof found, 0), 4);
    CHECK_MEMORY(found, "ab\0\0", 4); /* what was cut off does not come back */
    CHECK_EQ(mr_machine_truncate(machine, file, UINT64_MAX), -ENOSPC);
    CHECK_EQ(mr_machine_truncate(machine, reader, 1), -EINVAL);
    CHECK_EQ(mr_machine_pwrite(machine, file, "x", 1, INT64_MAX), -EFBIG);
    CHECK_EQ(mr_machine_pread(machine, file, found, 0, 0), 0);
    CHECK_EQ(mr_machine_pread(machine, file, found, 1, 4), 0);
    CHECK_EQ(mr_machine_fchmod(machine, file, 0100600), 0);
    CHECK_EQ(mr_machine_fstat(machine, file, &status), 0);
    CHECK_EQ(status.permissions, 0600);
    CHECK_EQ(status.size, 4);
    CHECK_EQ(status.names, 1);
    mr_machine_destroy(machine);
}

static void what_is_no_file(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    mr_machine_status status;
    char byte;
    int counter = MUST(mr_machine_eventfd(machine, 0, 0)), directory = MUST(mr_machine_open(machine, "/", O_RDONLY));
    (void)unused;
    CHECK_EQ(mr_machine_pread(machine, counter, &byte, 1, 0), -ESPIPE);
    CHECK_EQ(mr_machine_pwrite(machine, counter, &byte, 1, 0), -ESPIPE);
    CHECK_EQ(mr_machine_seek(machine, counter, 0, SEEK_SET), -ESPIPE);
    CHECK_EQ(mr_machine_size(machine, counter), -ESPIPE);
    CHECK_EQ(mr_machine_fsync(machine, counter), -EINVAL);
    CHECK_EQ(mr_machine_truncate(machine, counter, 0), -EINVAL);
    CHECK_EQ(mr_machine_fchmod(machine, counter, 0600), -EINVAL);
    CHECK_EQ(mr_machine_fstat(machine, counter, &status), -EBADF);
    CHECK_EQ(mr_machine_fstat(machine, 3, &status), -EBADF);
    CHECK_EQ(mr_machine_pread(machine, directory, &byte, 1, 0), -EISDIR);
    CHECK_EQ(mr_machine_pwrite(machine, directory, &byte, 1, 0), -EBADF);
    mr_machine_destroy(machine);
}

static void paths_that_lead_nowhere(uintptr_t unused)
{
    mr_machine *machine = plain_machine();
    char long_name[MR_MACHINE_NAME_BYTES + 10], name[MR_MACHINE_NAME_BYTES];
    mr_machine_status status;
    bool is_directory;
    (void)unused;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    closed(machine, MUST(mr_machine_open(machine, "f", O_RDWR | O_CREAT)));
    CHECK_EQ(mr_machine_mkdir(machine, "d", 0700), 0);
    CHECK_EQ(mr_machine_mkdir(machine, "d/e", 0700), 0);
    CHECK_EQ(mr_machine_mkdir(machine, "d2", 0700), 0);
    CHECK_EQ(mr_machine_open(machine, "", O_RDWR), -ENOENT);
    CHECK_EQ(mr_machine_open(machine, long_name, O_RDWR), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_open(machine, "f", O_RDONLY | O_DIRECTORY), -ENOTDIR);
    CHECK_EQ(mr_machine_open(machine, "d", O_RDONLY | O_TRUNC), -EISDIR);
    CHECK_EQ(mr_machine_stat(machine, "/..", &status), 0); /* the root is its own parent */
    CHECK(status.is_directory);
    CHECK_EQ(mr_machine_stat(machine, "gone", &status), -ENOENT);
    CHECK_EQ(mr_machine_list(machine, "gone", 0, name, &is_directory), -ENOENT);
    CHECK_EQ(mr_machine_list(machine, "f", 0, name, &is_directory), -ENOTDIR);
    CHECK_EQ(mr_machine_unlink(machine, "gone"), -ENOENT);
    CHECK_EQ(mr_machine_unlink(machine, "f/g"), -ENOTDIR);
    CHECK_EQ(mr_machine_rmdir(machine, "/"), -EBUSY);
    CHECK_EQ(mr_machine_rmdir(machine, "f"), -ENOTDIR);
    CHECK_EQ(mr_machine_mkdir(machine, long_name, 0700), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_rename(machine, "/", "x", 0), -EBUSY);
    CHECK_EQ(mr_machine_rename(machine, "f", "/", 0), -EBUSY);
    CHECK_EQ(mr_machine_rename(machine, long_name, "x", 0), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_rename(machine, "f", long_name, 0), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_rename(machine, "gone", "x", 0), -ENOENT);
    CHECK_EQ(mr_machine_rename(machine, "f", "gone", MR_MACHINE_EXCHANGE), -ENOENT);
    CHECK_EQ(mr_machine_rename(machine, "d", "f", 0), -ENOTDIR);
    CHECK_EQ(mr_machine_rename(machine, "d2", "d", 0), -ENOTEMPTY);
    CHECK_EQ(mr_machine_rename(machine, "d2", "d/e", 0), 0); /* takes the place of an empty one */
    CHECK_EQ(mr_machine_rename(machine, "f", "f", 0), 0);
    CHECK_EQ(mr_machine_link(machine, "gone", "x"), -ENOENT);
    CHECK_EQ(mr_machine_link(machine, "d", "x"), -EPERM);
    CHECK_EQ(mr_machine_link(machine, "f", "d"), -EEXIST);
    CHECK_EQ(mr_machine_link(machine, "f", long_name), -ENAMETOOLONG);
    CHECK_EQ(mr_machine_chmod(machine, "gone", 0600), -ENOENT);
    CHECK_EQ(mr_machine_chmod(machine, "f", 0123), 0);
    CHECK_EQ(mr_machine_set_modified(machine, "gone", 5), -ENOENT);
    CHECK_EQ(mr_machine_set_modified(machine, "f", 5), 0);
    CHECK_EQ(mr_machine_stat(machine, "f", &status), 0);
    CHECK_EQ(status.permissions, 0123);
    CHECK_EQ(status.modified_ns, 5);
    mr_machine_destroy(machine);
}

/* The power fails at each of the calls in turn: that one and all after it fail, until the power is back. */
static void calls_without_power(uintptr_t unused)
{
    enum { CALLS = 17 };
    (void)unused;
    for (uint64_t failing = 1; failing <= CALLS; failing++) {
        mr_machine *machine = new_machine(&(mr_machine_plan){.seed = failing, .traces = true});
        mr_machine_status status;
        char byte, name[MR_MACHINE_NAME_BYTES];
        bool is_directory;
        int file = MUST(mr_machine_open(machine, "f", O_RDWR | O_CREAT));
        closed(machine, MUST(mr_machine_open(machine, "h", O_RDWR | O_CREAT)));
        CHECK_EQ(mr_machine_mkdir(machine, "d", 0700), 0);
        CHECK(mr_machine_has_power(machine));
        mr_machine_fail_power_after(machine, failing);
        int results[CALLS] = {(int)mr_machine_pwrite(machine, file, "x", 1, 0),
                              (int)mr_machine_pread(machine, file, &byte, 1, 0),
                              mr_machine_fsync(machine, file),
                              mr_machine_truncate(machine, file, 7),
                              mr_machine_fchmod(machine, file, 0600),
                              mr_machine_chmod(machine, "f", 0600),
                              mr_machine_set_modified(machine, "f", 1),
                              mr_machine_stat(machine, "f", &status),
                              mr_machine_mkdir(machine, "e", 0700),
                              mr_machine_rmdir(machine, "d"),
                              mr_machine_link(machine, "f", "g"),
                              mr_machine_unlink(machine, "h"),
                              mr_machine_rename(machine, "g", "i", 0),
                              (int)send_text(machine, file, "x"),
                              (int)receive_byte(machine, file),
                              mr_machine_open(machine, "f", O_RDONLY),
                              mr_machine_open(machine, "new", O_RDWR | O_CREAT)};
        for (uint64_t i = 0; i < CALLS; i++)
            CHECK_EQ(results[i] == -EIO, i + 1 >= failing);
        CHECK(!mr_machine_has_power(machine));
        CHECK_EQ(mr_machine_list(machine, "/", 0, name, &is_directory), -EIO);
        mr_machine_crash(machine);
        CHECK(mr_machine_has_power(machine));
        CHECK_EQ(mr_machine_fsync(machine, file), -EIO); /* it was open */
        CHECK_EQ(mr_machine_pwrite(machine, file, "x", 1, 0), -EIO);
        CHECK_EQ(mr_machine_truncate(machine, file, 1), -EIO);
        CHECK_EQ(mr_machine_fchmod(machine, file, 1), -EIO);
        CHECK_EQ(mr_machine_fstat(machine, file, &status), -EIO);
        CHECK_EQ(mr_machine_size(machine, file), -EIO);
        CHECK_EQ(mr_machine_seek(machine, file, 0, SEEK_END), 0);
        CHECK_GE(mr_machine_list(machine, "/", 0, name, &is_directory), 0);
        mr_machine_destroy(machine);
    }
}

/* A size and permissions that were not synced are kept or lost, and one without the other. */
static void sizes_and_permissions_may_be_lost(uintptr_t unused)
{
    bool seen[2][2] = {{false}};
    (void)unused;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        mr_machine *machine = new_machine(&(mr_machine_plan){.seed = seed});
        mr_machine_status status;
        int root = MUST(mr_machine_open(machine, "/", O_RDONLY)),
            file = MUST(mr_machine_open_with(machine, "f", O_RDWR | O_CREAT, 0644));
        int counter = MUST(mr_machine_eventfd(machine, 0, 0));
        CHECK_EQ(mr_machine_pwrite(machine, file, "0123456789", 10, 0), 10);
        CHECK_EQ(mr_machine_truncate(machine, file, 8), 0);
        CHECK_EQ(mr_machine_fsync(machine, file), 0);
        CHECK_EQ(mr_machine_fsync(machine, root), 0);
        CHECK_EQ(mr_machine_truncate(machine, file, 3), 0);
        CHECK_EQ(mr_machine_fchmod(machine, file, 0600), 0);
        closed(machine, root);
        mr_machine_crash(machine);
        closed(machine, counter);
        CHECK_EQ(mr_machine_stat(machine, "f", &status), 0);
        CHECK(status.size == 8 || status.size == 3);
        CHECK(status.permissions == 0644 || status.permissions == 0600);
        seen[status.size == 3][status.permissions == 0600] = true;
        mr_machine_destroy(machine);
    }
    CHECK(seen[0][0] && seen[0][1] && seen[1][0] && seen[1][1]);
}

/* What is never synced comes to the disk by itself, when it is much. */
static void much_comes_to_the_disk_by_itself(uintptr_t unused)
{
    enum { PIECE = 1 << 20, PIECES = 8, NAMES = 1100 };
    static char piece[PIECE];
    mr_machine *machine = plain_machine();
    mr_machine_status status;
    char name[32];
    int file = MUST(mr_machine_open(machine, "f", O_RDWR | O_CREAT)), kept = 0;
    (void)unused;
    for (int i = 0; i < NAMES; i++) { /* more than a directory keeps to itself */
        snprintf(name, sizeof name, "name%d", i);
        closed(machine, MUST(mr_machine_open(machine, name, O_RDWR | O_CREAT)));
    }
    for (uint64_t i = 0; i < PIECES; i++)
        CHECK_EQ(mr_machine_pwrite(machine, file, piece, PIECE, i * PIECE), PIECE);
    CHECK_EQ(mr_machine_unlink(machine, "name0"), 0);
    int root = MUST(mr_machine_open(machine, "/", O_RDONLY));
    CHECK_EQ(mr_machine_fsync(machine, root), 0); /* a name that is gone is gone on the disk, too */
    mr_machine_crash(machine);
    CHECK_EQ(mr_machine_stat(machine, "f", &status), 0);
    CHECK_GE(status.size, 4 * PIECE);
    CHECK_EQ(mr_machine_stat(machine, "name0", &status), -ENOENT);
    for (int i = 1; i < NAMES; i++) {
        snprintf(name, sizeof name, "name%d", i);
        kept += mr_machine_stat(machine, name, &status) == 0;
    }
    CHECK_EQ(kept, NAMES - 1);
    mr_machine_destroy(machine);
}

static void calls_on_files_meet_faults(uintptr_t unused)
{
    mr_planned_fault planned[] = {{1, MR_FAULT_DELAY}, {2, MR_FAULT_DISK_FULL}, {3, MR_FAULT_IO_ERROR}};
    mr_machine *machine = new_machine(&(mr_machine_plan){.planned = planned, .planned_count = 3});
    uint64_t delay_ns = 0;
    (void)unused;
    CHECK_EQ(mr_machine_file_call(machine, &delay_ns), 0);
    CHECK_GT(delay_ns, 0);
    CHECK_EQ(mr_machine_file_call(machine, &delay_ns), -ENOSPC);
    CHECK_EQ(delay_ns, 0);
    CHECK_EQ(mr_machine_file_call(machine, &delay_ns), -EIO);
    CHECK_EQ(mr_machine_file_call(machine, &delay_ns), 0);
    mr_machine_destroy(machine);
}

/* ----------------------------------------------------------------------------------------------- time and notes --- */

static void chance_and_notes(uintptr_t unused)
{
    mr_machine *machine = new_machine(&(mr_machine_plan){.seed = 3, .traces = true, .delay_max_ns = 5, .stall_ns = 6});
    static char text[3000];
    size_t length;
    bool seen[3] = {false};
    (void)unused;
    for (int i = 0; i < 100; i++)
        seen[mr_machine_random(machine, 3)] = true;
    CHECK(seen[0] && seen[1] && seen[2]);
    CHECK_EQ(mr_machine_random(machine, 0), 0);
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 100; i++)
        mr_machine_note(machine, "%s", text); /* a line has its limit, and the trace none */
    const char *trace = mr_machine_trace(machine, &length);
    CHECK_GT(length, 10000);
    CHECK_EQ(trace[length - 1], '\n');
    CHECK_EQ(strcmp(mr_fault_name(MR_FAULT_SHORT), "short"), 0);
    CHECK_EQ(strcmp(mr_fault_name(MR_FAULT_COUNT), "unknown"), 0);
    CHECK_EQ(mr_machine_await(machine), -EDEADLK); /* nothing will ever happen */
    mr_machine_destroy(machine);
}

const harness_test machine_calls_tests[] = {
    UNIT(machine_calls, addresses_that_cannot_be_bound),
    UNIT(machine_calls, a_port_that_two_share),
    UNIT(machine_calls, who_hears_what_is_sent_to_any_address),
    UNIT(machine_calls, unix_sockets_have_paths),
    UNIT(machine_calls, addresses_of_version_6),
    UNIT(machine_calls, options_say_what_a_socket_is),
    UNIT(machine_calls, calls_on_what_is_no_socket),
    UNIT(machine_calls, sockets_without_a_connection),
    UNIT(machine_calls, a_peer_that_is_gone),
    UNIT(machine_calls, lingering_for_no_time_resets),
    {"machine_calls/a_listener_that_is_closed", a_listener_that_goes, true},
    {"machine_calls/a_listener_that_is_shut_down", a_listener_that_goes, false},
    UNIT(machine_calls, pipes_have_a_direction),
    UNIT(machine_calls, messengers_make_mistakes),
    UNIT(machine_calls, streams_know_who_sends),
    UNIT(machine_calls, numbers_run_out),
    UNIT(machine_calls, a_connection_waits_for_a_number),
    UNIT(machine_calls, numbers_are_duplicated),
    UNIT(machine_calls, files_have_a_position),
    UNIT(machine_calls, what_is_no_file),
    UNIT(machine_calls, paths_that_lead_nowhere),
    UNIT(machine_calls, calls_without_power),
    UNIT(machine_calls, sizes_and_permissions_may_be_lost),
    UNIT(machine_calls, much_comes_to_the_disk_by_itself),
    UNIT(machine_calls, calls_on_files_meet_faults),
    UNIT(machine_calls, chance_and_notes),
    {0},
};
