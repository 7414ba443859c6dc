/* unix_socket.c: MR_ACCEPT and MR_CONNECT on Unix sockets, where they differ from TCP. */
#include "../system/calls.h"
#include "conform.h"

#include <sys/un.h>

static void an_unnamed_peer_has_no_address(void)
{
    for (int wait_first = 0; wait_first < 2; wait_first++) {
        driver *d = driver_new();
        mr_address peer;
        mr_completion completion;
        /* Linux chooses an abstract name for a Unix socket that is bound to nothing (unix(7), "Autobind"). */
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        socklen_t size = sizeof address;
        int listener = MUST(system_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        MUST(system_bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)));
        MUST(system_getsockname(listener, (struct sockaddr *)&address, &size));
        MUST(system_listen(listener, 5));
        memset(&peer, 0xaa, sizeof peer);
        mr_handle handle = adopt(d, listener);
        mr_token token = wait_first ? start(d, accept_request(handle, &peer)) : 0;
        poll_once(d);
        int client = MUST(system_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        MUST(system_connect(client, (struct sockaddr *)&address, size));
        completion = wait_first ? finish(d, token) : perform(d, accept_request(handle, &peer));
        CHECK_GE(completion.result, 0);
        CHECK(is_fit_for_a_loop((int)completion.result));
        CHECK_EQ(peer.length, sizeof(sa_family_t));
        driver_free(d);
    }
}

static void a_missing_path_is_an_error(void)
{
    driver *d = driver_new();
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
    int client = MUST(system_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    CHECK_EQ(perform(d, connect_request(adopt(d, client), &address, sizeof address)).result, -ENOENT);
    driver_free(d);
}

/* If the queue of a Unix listener is full, connect(2) fails with EAGAIN, and no event reports when it is no longer
 * full. */
static void a_full_unix_listener_is_waited_for(void)
{
    driver *d = driver_new();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t size = sizeof address;
    int listener = MUST(system_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    MUST(system_bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)));
    MUST(system_getsockname(listener, (struct sockaddr *)&address, &size));
    MUST(system_listen(listener, 0));
    int client;
    do
        client = MUST(system_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    while (system_connect(client, (struct sockaddr *)&address, size) == 0);
    CHECK_EQ(errno, EAGAIN);
    mr_token token = start(d, connect_request(adopt(d, client), &address, size));
    uint64_t before = counters_of(d).system_calls;
    run_for_ms(d, 50);
    CHECK(!has_arrived(d, token));
    CHECK_LE(counters_of(d).system_calls - before, 40);
    while (system_accept4(listener, NULL, NULL, 0) >= 0)
        ;
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

/* Always ready, with nothing to accept: a call that does not wait only gets EAGAIN from Linux. */
static void a_unix_listener_that_is_shut_down_ends_accepts(void)
{
    driver *d = driver_new();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = MUST(system_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (conform_backend == MR_BACKEND_KQUEUE) {
        driver_free(d);
        SKIP("on BSD the call says it itself");
    }
    MUST(system_bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)));
    MUST(system_listen(listener, 5));
    mr_handle handle = adopt(d, listener);
    mr_token one = start(d, accept_request(handle, NULL)), other = start(d, accept_request(handle, NULL));
    CHECK_STAYS_PENDING(d, one);
    CHECK_EQ(perform(d, shutdown_request(handle, SHUT_RDWR)).result, 0);
    CHECK_EQ(finish(d, one).result, -EINVAL);
    CHECK_EQ(finish(d, other).result, -EINVAL);
    CHECK_EQ(perform(d, accept_request(handle, NULL)).result, -EINVAL);
    driver_free(d);
}

const conform_case unix_socket_cases[] = {
    CASE(an_unnamed_peer_has_no_address),
    CASE(a_missing_path_is_an_error),
    CASE(a_full_unix_listener_is_waited_for),
    CASE(a_unix_listener_that_is_shut_down_ends_accepts),
    {0},
};
