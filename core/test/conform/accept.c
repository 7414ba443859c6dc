/* accept.c: MR_ACCEPT, also without descriptors. */
#include "conform.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/un.h>

static int connect_to(const struct sockaddr_in *address)
{
    int client = MUST(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    MUST(connect(client, (const struct sockaddr *)address, sizeof *address));
    return client;
}

static void check_accepted(int64_t result)
{
    CHECK_GE(result, 0);
    CHECK(MUST(fcntl((int)result, F_GETFL)) & O_NONBLOCK);
    CHECK(MUST(fcntl((int)result, F_GETFD)) & FD_CLOEXEC);
}

static void takes_a_connection_that_is_there(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_handle listener = adopt(d, tcp_listener(5, &address));
    int client = connect_to(&address);
    mr_completion completion = perform(d, accept_request(listener, NULL));
    check_accepted(completion.result);
    write_all(client, "x", 1);
    sleep_ms(1);
    CHECK_EQ(drain((int)completion.result), 1);
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
        socklen_t size = sizeof client_address;
        mr_address peer;
        mr_completion completion;
        memset(&peer, 0xaa, sizeof peer);
        mr_handle listener = adopt(d, tcp_listener(5, &address));
        mr_token token = wait_first ? start(d, accept_request(listener, &peer)) : 0;
        poll_once(d);
        int client = connect_to(&address);
        MUST(getsockname(client, (struct sockaddr *)&client_address, &size));
        completion = wait_first ? finish(d, token) : perform(d, accept_request(listener, &peer));
        check_accepted(completion.result);
        CHECK_EQ(peer.length, sizeof client_address);
        CHECK_MEMORY((char *)&peer.storage, &client_address, sizeof client_address);
        driver_free(d);
    }
}

static void an_unnamed_peer_has_no_address(void)
{
    for (int wait_first = 0; wait_first < 2; wait_first++) {
        driver *d = driver_new();
        mr_address peer;
        mr_completion completion;
        /* Linux chooses an abstract name for a Unix socket that is bound to nothing (unix(7), "Autobind"). */
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        socklen_t size = sizeof address;
        int listener = MUST(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        MUST(bind(listener, (struct sockaddr *)&address, sizeof(sa_family_t)));
        MUST(getsockname(listener, (struct sockaddr *)&address, &size));
        MUST(listen(listener, 5));
        memset(&peer, 0xaa, sizeof peer);
        mr_handle handle = adopt(d, listener);
        mr_token token = wait_first ? start(d, accept_request(handle, &peer)) : 0;
        poll_once(d);
        int client = MUST(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        MUST(connect(client, (struct sockaddr *)&address, size));
        completion = wait_first ? finish(d, token) : perform(d, accept_request(handle, &peer));
        check_accepted(completion.result);
        CHECK_EQ(peer.length, sizeof(sa_family_t));
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

/* Connections that arrive in one edge and are accepted one at a time. */
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

/* A listener that is non-blocking must not make the backend ask again and again. */
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
    mr_handle listener = adopt(d, tcp_listener(5, &address));
    CHECK(!submit(d, with_flags(accept_request(listener, NULL), MR_NOW), &completion));
    CHECK_EQ(completion.result, -EAGAIN);
    connect_to(&address);
    CHECK(!submit(d, with_flags(accept_request(listener, NULL), MR_NOW), &completion));
    check_accepted(completion.result);
    driver_free(d);
}

/* ------------------------------------------------------------------------------------------ descriptor pressure --- */

/* Makes the next new descriptor fail with EMFILE; returns the limit to restore. */
static struct rlimit take_descriptors_away(void)
{
    struct rlimit limit, none;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    int lowest_free = MUST(dup(0));
    close(lowest_free);
    none = limit;
    none.rlim_cur = (rlim_t)lowest_free;
    MUST(setrlimit(RLIMIT_NOFILE, &none));
    CHECK_EQ(dup(0), -1);
    CHECK_EQ(errno, EMFILE);
    return limit;
}

typedef struct pressed_listener {
    driver *d;
    mr_handle handle;
    struct rlimit limit;
} pressed_listener;

/* A listener with a connection in its queue that nobody can accept. */
static pressed_listener new_pressed_listener(void)
{
    pressed_listener p = {.d = driver_new()};
    struct sockaddr_in address;
    p.handle = adopt(p.d, tcp_listener(5, &address));
    connect_to(&address);
    run_for_ms(p.d, 1); /* so that the backend has opened all it needs */
    p.limit = take_descriptors_away();
    return p;
}

static void give_descriptors_back(const pressed_listener *p)
{
    MUST(setrlimit(RLIMIT_NOFILE, &p->limit));
}

static void without_descriptors_it_backs_off_and_recovers(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    uint64_t before = counters_of(p.d).system_calls;
    run_for_ms(p.d, 300);
    CHECK(!has_arrived(p.d, token));
    /* 10 + 20 + 40 + 80 + 160 ms: five attempts, each with a handful of calls around it. */
    CHECK_LE(counters_of(p.d).system_calls - before, 60);
    CHECK_GE(counters_of(p.d).resubmissions, 4);
    CHECK_LE(counters_of(p.d).resubmissions, 8);
    give_descriptors_back(&p);
    uint64_t restored_ns = mr_clock_now_ns();
    check_accepted(finish(p.d, token).result);
    CHECK_LT(mr_clock_now_ns() - restored_ns, 500 * NS_PER_MS);
    driver_free(p.d);
}

/* As above, but the connection comes when the accept is parked already. */
static void a_parked_accept_backs_off_too(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    mr_token token = start(d, accept_request(adopt(d, tcp_listener(5, &address)), NULL));
    run_for_ms(d, 5);
    int client = tcp_socket();
    struct rlimit limit = take_descriptors_away();
    CHECK_EQ(connect(client, (struct sockaddr *)&address, sizeof address), -1);
    CHECK_EQ(errno, EINPROGRESS);
    uint64_t before = counters_of(d).system_calls;
    run_for_ms(d, 150);
    /* io_uring takes the limit when an operation is submitted, so this one may have slipped through. */
    if (!has_arrived(d, token))
        CHECK_LE(counters_of(d).system_calls - before, 50);
    MUST(setrlimit(RLIMIT_NOFILE, &limit));
    check_accepted(finish(d, token).result);
    driver_free(d);
}

static void backing_off_ends_at_the_deadline(void)
{
    pressed_listener p = new_pressed_listener();
    uint64_t deadline_ns = in_ms(160); /* between the attempts after 150 and after 310 ms */
    mr_token token = start(p.d, with_deadline(accept_request(p.handle, NULL), deadline_ns));
    CHECK_EQ(finish(p.d, token).result, -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    CHECK_LT(mr_clock_now_ns(), deadline_ns + 130 * NS_PER_MS);
    give_descriptors_back(&p);
    driver_free(p.d);
}

static void a_deadline_set_while_backing_off_counts(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    run_for_ms(p.d, 100);
    mr_loop_update(driver_loop(p.d), token, in_ms(1));
    CHECK_EQ(finish(p.d, token).result, -ETIMEDOUT);
    give_descriptors_back(&p);
    driver_free(p.d);
}

static void backing_off_can_be_cancelled(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    run_for_ms(p.d, 50);
    mr_loop_cancel(driver_loop(p.d), token);
    CHECK_EQ(finish(p.d, token).result, -ECANCELED);
    give_descriptors_back(&p);
    driver_free(p.d);
}

static void backing_off_ends_at_close(void)
{
    pressed_listener p = new_pressed_listener();
    mr_token token = start(p.d, accept_request(p.handle, NULL));
    run_for_ms(p.d, 50);
    CHECK_EQ(perform(p.d, close_request(p.handle)).result, 0);
    CHECK_EQ(finish(p.d, token).result, -EBADF);
    give_descriptors_back(&p);
    driver_free(p.d);
}

const conform_case accept_cases[] = {
    CASE(takes_a_connection_that_is_there),
    CASE(waits_for_a_connection),
    CASE(fills_in_the_address),
    CASE(an_unnamed_peer_has_no_address),
    CASE(many_accepts_share_a_listener),
    CASE(one_edge_may_bring_many_connections),
    CASE(a_reset_connection_does_not_end_it),
    CASE(a_socket_that_does_not_listen_is_an_error),
    CASE(waiting_costs_nothing),
    CASE(now_does_not_wait),
    CASE(without_descriptors_it_backs_off_and_recovers),
    CASE(a_parked_accept_backs_off_too),
    CASE(backing_off_ends_at_the_deadline),
    CASE(a_deadline_set_while_backing_off_counts),
    CASE(backing_off_can_be_cancelled),
    CASE(backing_off_ends_at_close),
    {0},
};
