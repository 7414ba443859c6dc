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
    connection c = tcp_connection();
    char byte;
    CHECK_EQ(shut(c.d, c.handle, SHUT_WR), 0);
    CHECK_EQ(read_some(c.peer, &byte, 1), 0);
    driver_free(c.d);
}

static void half_closed_still_receives(void)
{
    connection c = tcp_connection();
    char buffer[10];
    mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
    CHECK_EQ(shut(c.d, c.handle, SHUT_WR), 0);
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "answer", 6);
    CHECK_EQ(finish(c.d, token).result, 6);
    CHECK_EQ(perform(c.d, send_request(c.handle, "x", 1)).result, -EPIPE);
    driver_free(c.d);
}

static void after_the_peers_end_one_can_still_send(void)
{
    connection c = tcp_connection();
    char buffer[10];
    mr_token token = start(c.d, recv_request(c.handle, buffer, sizeof buffer));
    end_stream(c.peer);
    CHECK_EQ(finish(c.d, token).result, 0);
    CHECK_EQ(perform(c.d, send_all_request(c.handle, "answer", 6)).result, 6);
    CHECK_EQ(read_some(c.peer, buffer, sizeof buffer), 6);
    driver_free(c.d);
}

static void it_ends_a_pending_receive(void)
{
    connection c = tcp_connection();
    char byte;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    poll_once(c.d);
    CHECK_EQ(shut(c.d, c.handle, SHUT_RD), 0);
    CHECK_EQ(finish(c.d, token).result, 0);
    driver_free(c.d);
}

static void it_ends_a_pending_send(void)
{
    connection c = tcp_connection();
    fill(c.number);
    mr_token token = start(c.d, send_request(c.handle, "x", 1));
    run_for_ms(c.d, 2);
    CHECK_EQ(shut(c.d, c.handle, SHUT_RDWR), 0);
    CHECK_EQ(finish(c.d, token).result, -EPIPE);
    driver_free(c.d);
}

static void mistakes_are_errors(void)
{
    connection c = local_connection();
    CHECK_EQ(shut(c.d, c.handle, 7), -EINVAL);
    CHECK_EQ(shut(c.d, adopt(c.d, tcp_socket()), SHUT_WR), -ENOTCONN);
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    CHECK_EQ(shut(c.d, c.handle, SHUT_WR), -EBADF);
    driver_free(c.d);
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
