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

/* Linux does not say so to those who poll for room. */
static void shut_for_sending_a_unix_socket_ends_all_that_wait_for_room(void)
{
    connection c = local_connection();
    struct iovec element = {"x", 1};
    char byte;
    fill(c.number);
    mr_token receiving = start(c.d, recv_request(c.handle, &byte, 1));
    mr_token sending[] = {start(c.d, send_request(c.handle, "x", 1)), start(c.d, send_all_request(c.handle, "x", 1)),
                          start(c.d, vector_request(MR_SEND_VECTOR, c.handle, &element, 1))};
    mr_token waiting = start(c.d, wait_request(MR_WAIT_WRITABLE, c.handle));
    run_for_ms(c.d, 2);
    CHECK_EQ(shut(c.d, c.handle, SHUT_WR), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(finish(c.d, sending[i]).result, -EPIPE);
    int64_t readiness = finish(c.d, waiting).result;
    CHECK(readiness == 0 || readiness == -EPIPE);
    CHECK_STAYS_PENDING(c.d, receiving);
    write_all(c.peer, "y", 1);
    CHECK_EQ(finish(c.d, receiving).result, 1);
    driver_free(c.d);
}

static void it_ends_what_waits_on_other_loops(void)
{
    connection c = local_connection();
    driver *other = driver_new_beside(c.d);
    char byte;
    fill(c.number);
    mr_token sending = start(other, send_request(c.handle, "x", 1));
    mr_token receiving = start(other, recv_request(c.handle, &byte, 1));
    run_for_ms(other, 2);
    CHECK_EQ(shut(c.d, c.handle, SHUT_WR), 0);
    CHECK_EQ(finish(other, sending).result, -EPIPE);
    CHECK_EQ(shut(c.d, c.handle, SHUT_RD), 0);
    CHECK_EQ(finish(other, receiving).result, 0);
    driver_free(other);
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
    CASE(shut_for_sending_a_unix_socket_ends_all_that_wait_for_room),
    CASE(it_ends_what_waits_on_other_loops),
    CASE(mistakes_are_errors),
    {0},
};
