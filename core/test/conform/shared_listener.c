/* shared_listener.c: several loops wait for connections to one socket, and one stops waiting just when a connection
 * arrives. */
#include "../system/calls.h"
#include "conform.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

/* Connects on request, on a separate thread: the other one makes no system call meanwhile, in which the kernel would
 * deliver to it. */
typedef struct connector {
    struct sockaddr_in address;
    atomic_bool may_connect, has_connected;
} connector;

static void *connect_when_told(void *argument)
{
    connector *c = argument;
    while (!atomic_load(&c->may_connect)) {
    }
    hang_up(connect_to(&c->address));
    atomic_store(&c->has_connected, true);
    return NULL;
}

static void have_connected(connector *c)
{
    atomic_store(&c->may_connect, true);
    while (!atomic_load(&c->has_connected)) {
    }
}

/* Two loops of different groups, as if in two processes. */
typedef struct waiting {
    driver *d[2];
    mr_handle listener[2];
    mr_token token[2];
    connector connector;
    pthread_t thread;
} waiting;

static void wait_for_one_connection(waiting *w)
{
    w->connector.may_connect = w->connector.has_connected = false;
    int number = tcp_listener(5, &w->connector.address);
    for (int i = 0; i < 2; i++) {
        w->d[i] = driver_new();
        w->listener[i] = adopt(w->d[i], i == 0 ? number : MUST(system_fcntl(number, F_DUPFD_CLOEXEC, 0)));
        w->token[i] = start(w->d[i], accept_request(w->listener[i], NULL));
        poll_once(w->d[i]);
    }
    start_thread(&w->thread, connect_when_told, &w->connector);
    have_connected(&w->connector);
}

/* One of the two accepts it, even if the first stops waiting. */
static void check_served(waiting *w)
{
    bool first_got_it = finish(w->d[0], w->token[0]).result >= 0;
    if (first_got_it)
        mr_loop_cancel(driver_loop(w->d[1]), w->token[1]);
    int64_t result = finish(w->d[1], w->token[1]).result;
    CHECK(first_got_it || result >= 0);
    CHECK_EQ(pthread_join(w->thread, NULL), 0);
    driver_free(w->d[1]);
    driver_free(w->d[0]);
}

enum { ROUNDS = 20 };

static void one_that_is_cancelled_leaves_the_connection_to_another(void)
{
    for (unsigned i = 0; i < harness_rounds(ROUNDS); i++) {
        waiting w;
        wait_for_one_connection(&w);
        mr_loop_cancel(driver_loop(w.d[0]), w.token[0]);
        check_served(&w);
    }
}

static void one_whose_time_is_over_leaves_the_connection_to_another(void)
{
    for (unsigned i = 0; i < harness_rounds(ROUNDS); i++) {
        waiting w;
        wait_for_one_connection(&w);
        mr_loop_update(driver_loop(w.d[0]), w.token[0], 1);
        check_served(&w);
    }
}

static void one_that_is_interrupted_leaves_the_connection_to_another(void)
{
    for (unsigned i = 0; i < harness_rounds(ROUNDS); i++) {
        waiting w;
        wait_for_one_connection(&w);
        CHECK_EQ(mr_group_interrupt(driver_group(w.d[0]), driver_loop(w.d[0]), w.listener[0]), 0);
        check_served(&w);
    }
}

static void one_that_closes_leaves_the_connection_to_another(void)
{
    for (unsigned i = 0; i < harness_rounds(ROUNDS); i++) {
        waiting w;
        wait_for_one_connection(&w);
        CHECK_EQ(perform(w.d[0], close_request(w.listener[0])).result, 0);
        check_served(&w);
    }
}

const conform_case shared_listener_cases[] = {
    CASE(one_that_is_cancelled_leaves_the_connection_to_another),
    CASE(one_whose_time_is_over_leaves_the_connection_to_another),
    CASE(one_that_is_interrupted_leaves_the_connection_to_another),
    CASE(one_that_closes_leaves_the_connection_to_another),
    {0},
};
