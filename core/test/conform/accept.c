/* accept.c: MR_ACCEPT. */
#include "conform.h"
static void check_accepted(int64_t result)
{
    CHECK_GE(result, 0);
    CHECK(is_fit_for_a_loop((int)result));
}

static void takes_a_connection_that_is_there(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_handle listener = adopt(d, tcp_listener(5, &address));
    int client = connect_to(&address);
    mr_completion completion = perform(d, accept_request(listener, NULL));
    check_accepted(completion.result);
    char byte;
    write_all(client, "x", 1);
    CHECK_EQ(read_some((int)completion.result, &byte, 1), 1);
    driver_free(d);
}

static void waits_for_a_connection(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_handle listener = adopt(d, tcp_listener(5, &address));
    mr_token token = start(d, accept_request(listener, NULL));
    CHECK_STAYS_PENDING(d, token);
    connect_to(&address);
    check_accepted(finish(d, token).result);
    driver_free(d);
}

static void fills_in_the_address(void)
{
    for (int wait_first = 0; wait_first < 2; wait_first++) {
        driver *d = driver_new();
        struct sockaddr_in address, client_address;
        mr_address peer;
        mr_completion completion;
        memset(&peer, 0xaa, sizeof peer);
        mr_handle listener = adopt(d, tcp_listener(5, &address));
        mr_token token = wait_first ? start(d, accept_request(listener, &peer)) : 0;
        poll_once(d);
        client_address = own_address(connect_to(&address));
        completion = wait_first ? finish(d, token) : perform(d, accept_request(listener, &peer));
        check_accepted(completion.result);
        CHECK_EQ(peer.length, sizeof client_address);
        CHECK_MEMORY((char *)&peer.storage, &client_address, sizeof client_address);
        driver_free(d);
    }
}

static void many_accepts_share_a_listener(void)
{
    enum { COUNT = 50 };
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_token tokens[COUNT];
    int accepted[COUNT];
    mr_handle listener = adopt(d, tcp_listener(COUNT, &address));
    for (int i = 0; i < COUNT; i++)
        tokens[i] = start(d, accept_request(listener, NULL));
    poll_once(d);
    for (int i = 0; i < COUNT; i++)
        connect_to(&address);
    for (int i = 0; i < COUNT; i++) {
        accepted[i] = (int)finish(d, tokens[i]).result;
        check_accepted(accepted[i]);
        for (int j = 0; j < i; j++)
            CHECK_NE(accepted[i], accepted[j]);
    }
    driver_free(d);
}

/* Connections that one edge reports, accepted one at a time. */
static void one_edge_may_bring_many_connections(void)
{
    enum { COUNT = 50 };
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_handle listener = adopt(d, tcp_listener(COUNT, &address));
    mr_token token = start(d, accept_request(listener, NULL));
    poll_once(d);
    for (int i = 0; i < COUNT; i++)
        connect_to(&address);
    check_accepted(finish(d, token).result);
    for (int i = 1; i < COUNT; i++)
        check_accepted(perform(d, accept_request(listener, NULL)).result);
    driver_free(d);
}

static void a_reset_connection_does_not_end_it(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_handle listener = adopt(d, tcp_listener(5, &address));
    reset(connect_to(&address));
    connect_to(&address);
    check_accepted(perform(d, accept_request(listener, NULL)).result);
    driver_free(d);
}

static void a_socket_that_does_not_listen_is_an_error(void)
{
    driver *d = driver_new();
    CHECK_EQ(perform(d, accept_request(adopt(d, tcp_socket()), NULL)).result, -EINVAL);
    driver_free(d);
}

/* On a non-blocking listener the backend must not retry in a loop. */
static void waiting_costs_nothing(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_token token = start(d, accept_request(adopt(d, tcp_listener(5, &address)), NULL));
    run_for_ms(d, 10);
    uint64_t before = counters_of(d).system_calls;
    run_for_ms(d, 100);
    CHECK_LE(counters_of(d).system_calls - before, 20);
    connect_to(&address);
    check_accepted(finish(d, token).result);
    driver_free(d);
}

static void now_does_not_wait(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_completion completion;
    int number = tcp_listener(5, &address);
    mr_handle listener = adopt(d, number);
    CHECK(!submit(d, with_flags(accept_request(listener, NULL), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    connect_to(&address);
    await_input(number);
    CHECK(!submit(d, with_flags(accept_request(listener, NULL), MR_NOW), &completion));
    check_accepted(completion.result);
    driver_free(d);
}

const conform_case accept_cases[] = {
    CASE(takes_a_connection_that_is_there),
    CASE(waits_for_a_connection),
    CASE(fills_in_the_address),
    CASE(many_accepts_share_a_listener),
    CASE(one_edge_may_bring_many_connections),
    CASE(a_reset_connection_does_not_end_it),
    CASE(a_socket_that_does_not_listen_is_an_error),
    CASE(waiting_costs_nothing),
    CASE(now_does_not_wait),
    {0},
};
