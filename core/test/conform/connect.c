/* connect.c: MR_CONNECT. */
#include "conform.h"

static void connects_to_a_listener(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    int listener = tcp_listener(5, &address);
    mr_handle client = adopt(d, tcp_socket());
    CHECK_EQ(perform(d, connect_request(client, &address, sizeof address)).result, 0);
    CHECK_EQ(perform(d, send_request(client, "x", 1)).result, 1);
    char byte;
    CHECK_EQ(read_some(accept_one(listener), &byte, 1), 1);
    driver_free(d);
}

static void refused_is_an_error(void)
{
    driver *d = driver_new();
    struct sockaddr_in address = dead_address();
    CHECK_EQ(perform(d, connect_request(adopt(d, tcp_socket()), &address, sizeof address)).result, -ECONNREFUSED);
    driver_free(d);
}

static void twice_is_an_error(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    tcp_listener(5, &address);
    mr_handle client = adopt(d, tcp_socket());
    CHECK_EQ(perform(d, connect_request(client, &address, sizeof address)).result, 0);
    /* Linux reports success once to each caller; only afterwards connect fails. */
    perform(d, connect_request(client, &address, sizeof address));
    CHECK_EQ(perform(d, connect_request(client, &address, sizeof address)).result, -EISCONN);
    driver_free(d);
}

/* The address belongs to the loop until the completion; afterwards the caller may reuse it. */
static void many_at_once(void)
{
    enum { COUNT = 60 };
    driver *d = driver_new();
    struct sockaddr_in address, copies[COUNT];
    mr_completion completions[COUNT];
    bool is_pending[COUNT];
    tcp_listener(COUNT, &address);
    for (int i = 0; i < COUNT; i++) {
        copies[i] = address;
        is_pending[i] = submit(d, connect_request(adopt(d, tcp_socket()), &copies[i], sizeof address), &completions[i]);
    }
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(is_pending[i] ? finish(d, completions[i].token).result : completions[i].result, 0);
    driver_free(d);
}

static void an_unanswered_attempt_can_be_cancelled(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    full_listener(&address);
    mr_token token = start(d, connect_request(adopt(d, tcp_socket()), &address, sizeof address));
    CHECK_STAYS_PENDING(d, token);
    mr_loop_cancel(driver_loop(d), token);
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    driver_free(d);
}

static void an_unanswered_attempt_ends_at_its_deadline(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    full_listener(&address);
    uint64_t deadline_ns = in_ms(30);
    mr_request request = connect_request(adopt(d, tcp_socket()), &address, sizeof address);
    CHECK_EQ(perform(d, with_deadline(request, deadline_ns)).result, -ETIMEDOUT);
    CHECK_GE(clock_ns(), deadline_ns);
    driver_free(d);
}

static void an_unanswered_attempt_ends_at_close(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    full_listener(&address);
    mr_handle client = adopt(d, tcp_socket());
    mr_token token = start(d, connect_request(client, &address, sizeof address));
    CHECK_EQ(perform(d, close_request(client)).result, 0);
    CHECK_EQ(finish(d, token).result, -EBADF);
    driver_free(d);
}

/* Linux forgets such an attempt: the call that should return its outcome would begin another one. */
static void shut_down_an_unanswered_attempt_is_aborted(void)
{
    if (conform_backend != MR_BACKEND_IO_URING && conform_backend != MR_BACKEND_EPOLL &&
        conform_backend != MR_BACKEND_HYBRID)
        SKIP("what is not connected cannot be shut down elsewhere");
    driver *d = driver_new();
    struct sockaddr_in address;
    full_listener(&address);
    mr_handle client = adopt(d, tcp_socket());
    mr_token token = start(d, connect_request(client, &address, sizeof address));
    CHECK_STAYS_PENDING(d, token);
    CHECK_EQ(perform(d, shutdown_request(client, SHUT_RDWR)).result, 0);
    CHECK_EQ(finish(d, token).result, -ECONNABORTED);
    driver_free(d);
}

static void a_new_connection_receives(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    int listener = tcp_listener(5, &address);
    mr_handle client = adopt(d, tcp_socket());
    char byte;
    CHECK_EQ(perform(d, connect_request(client, &address, sizeof address)).result, 0);
    mr_token receiving = start(d, recv_request(client, &byte, 1));
    write_all(accept_one(listener), "y", 1);
    CHECK_EQ(finish(d, receiving).result, 1);
    driver_free(d);
}

const conform_case connect_cases[] = {
    CASE(connects_to_a_listener),
    CASE(refused_is_an_error),
    CASE(twice_is_an_error),
    CASE(many_at_once),
    CASE(an_unanswered_attempt_can_be_cancelled),
    CASE(an_unanswered_attempt_ends_at_its_deadline),
    CASE(an_unanswered_attempt_ends_at_close),
    CASE(shut_down_an_unanswered_attempt_is_aborted),
    CASE(a_new_connection_receives),
    {0},
};
