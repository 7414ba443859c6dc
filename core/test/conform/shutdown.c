/* shutdown.c: MR_SHUTDOWN and half-closed connections. */
#include "conform.h"

static int64_t shut(driver *d, mr_handle handle, int how)
{
    mr_completion completion;
    CHECK(!submit(d, shutdown_request(handle, how), &completion));
    return completion.result;
}

static void the_peer_sees_the_end(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    tcp_pair(pair);
    CHECK_EQ(shut(d, adopt(d, pair[0]), SHUT_WR), 0);
    set_blocking(pair[1]);
    CHECK_EQ(MUST(read(pair[1], &byte, 1)), 0);
    driver_free(d);
}

static void half_closed_still_receives(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[10];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
    CHECK_EQ(shut(d, handle, SHUT_WR), 0);
    CHECK_STAYS_PENDING(d, token);
    write_all(pair[1], "answer", 6);
    CHECK_EQ(finish(d, token).result, 6);
    CHECK_EQ(perform(d, send_request(handle, "x", 1)).result, -EPIPE);
    driver_free(d);
}

static void after_the_peers_end_one_can_still_send(void)
{
    driver *d = driver_new();
    int pair[2];
    char buffer[10];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(handle, buffer, sizeof buffer));
    shutdown(pair[1], SHUT_WR);
    CHECK_EQ(finish(d, token).result, 0);
    CHECK_EQ(perform(d, send_all_request(handle, "answer", 6)).result, 6);
    set_blocking(pair[1]);
    CHECK_EQ(MUST(read(pair[1], buffer, sizeof buffer)), 6);
    driver_free(d);
}

static void it_ends_a_pending_receive(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(handle, &byte, 1));
    poll_once(d);
    CHECK_EQ(shut(d, handle, SHUT_RD), 0);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void it_ends_a_pending_send(void)
{
    driver *d = driver_new();
    int pair[2];
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill(pair[0]);
    mr_token token = start(d, send_request(handle, "x", 1));
    run_for_ms(d, 2);
    CHECK_EQ(shut(d, handle, SHUT_RDWR), 0);
    CHECK_EQ(finish(d, token).result, -EPIPE);
    driver_free(d);
}

static void mistakes_are_errors(void)
{
    driver *d = driver_new();
    int pair[2];
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    CHECK_EQ(shut(d, handle, 7), -EINVAL);
    CHECK_EQ(shut(d, adopt(d, tcp_socket()), SHUT_WR), -ENOTCONN);
    CHECK_EQ(perform(d, close_request(handle)).result, 0);
    CHECK_EQ(shut(d, handle, SHUT_WR), -EBADF);
    driver_free(d);
}

const conform_case shutdown_cases[] = {
    CASE(the_peer_sees_the_end),
    CASE(half_closed_still_receives),
    CASE(after_the_peers_end_one_can_still_send),
    CASE(it_ends_a_pending_receive),
    CASE(it_ends_a_pending_send),
    CASE(mistakes_are_errors),
    {0},
};
