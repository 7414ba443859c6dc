/* machine_address_calls.c: addresses of a simulated machine, and errors of calls with them, which are those of
   Linux. */
#include "machine_calls.h"

static int bind_anew(mr_machine *machine, int number, int family, in_port_t port)
{
    endpoint p = endpoint_in(family, port);
    return mr_machine_bind(machine, number, &p.of.any, p.length);
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
    endpoint cut = endpoint_in(AF_INET, 82);
    CHECK_EQ(mr_machine_bind(machine, other, &cut.of.any, cut.length - 1), -EAFNOSUPPORT);
    endpoint cut6 = endpoint_in(AF_INET6, 82);
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
    endpoint any4 = endpoint_in(AF_INET, 80), any6 = endpoint_in(AF_INET6, 81);
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
    endpoint found = {.length = sizeof found.of};
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
    CHECK_EQ(found.length, endpoint_in(AF_UNIX, 3).length);
    CHECK_EQ(memcmp(found.of.un.sun_path, "/socket3", 8), 0);
    found.length = sizeof found.of;
    CHECK_EQ(mr_machine_getpeername(machine, same, &found.of.any, &found.length), 0);
    CHECK_EQ(found.length, endpoint_in(AF_UNIX, 1).length);
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
    endpoint found = {.length = sizeof found.of};
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

const harness_test machine_address_calls_tests[] = {
    UNIT(machine_address_calls, addresses_that_cannot_be_bound),
    UNIT(machine_address_calls, a_port_that_two_share),
    UNIT(machine_address_calls, who_hears_what_is_sent_to_any_address),
    UNIT(machine_address_calls, unix_sockets_have_paths),
    UNIT(machine_address_calls, addresses_of_version_6),
    {0},
};
