/* shutdown.c: MR_SHUTDOWN and half-closed connections. */
#include "conform.h"

#include <pthread.h>

typedef struct waiting {
    driver *d;
    mr_token token;
} waiting;

static void *finish_elsewhere(void *argument)
{
    const waiting *w = argument;
    CHECK_EQ(finish(w->d, w->token).result, 0);
    return NULL;
}

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

/* Linux does not report that to a poll for POLLOUT. */
static void shut_for_sending_a_unix_socket_ends_all_waiting_sends(void)
{
    connection c = local_connection();
    struct iovec element = {"x", 1};
    char byte;
    fill(c.number);
    mr_token receiving = start(c.d, recv_request(c.handle, &byte, 1));
    mr_token sending[] = {start(c.d, send_request(c.handle, "x", 1)), start(c.d, send_all_request(c.handle, "x", 1)),
                          start(c.d, vector_request(MR_SEND_VECTOR, c.handle, &element, 1))};
    mr_token writable = start(c.d, wait_request(MR_WAIT_WRITABLE, c.handle));
    run_for_ms(c.d, 2);
    CHECK_EQ(shut(c.d, c.handle, SHUT_WR), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(finish(c.d, sending[i]).result, -EPIPE);
    CHECK_EQ(finish(c.d, writable).result, 0);
    CHECK_STAYS_PENDING(c.d, receiving);
    write_all(c.peer, "y", 1);
    CHECK_EQ(finish(c.d, receiving).result, 1);
    driver_free(c.d);
}

static void it_ends_a_borrowing_receive(void)
{
    connection c = tcp_connection();
    mr_token token = start(c.d, borrowing_request(c.handle, 1));
    CHECK_STAYS_PENDING(c.d, token);
    CHECK_EQ(shut(c.d, c.handle, SHUT_RD), 0);
    check_nothing_borrowed(finish(c.d, token), 0);
    driver_free(c.d);
}

static void it_ends_what_waits_on_other_loops(void)
{
    connection c = tcp_connection();
    driver *other = driver_new_beside(c.d);
    char byte;
    fill(c.number);
    mr_token receiving = start(other, recv_request(c.handle, &byte, 1));
    mr_token borrowed = start(other, borrowing_request(c.handle, 1));
    mr_token sending = start(other, send_request(c.handle, "x", 1));
    run_for_ms(other, 5);
    CHECK_EQ(shut(c.d, c.handle, SHUT_RDWR), 0);
    CHECK_EQ(finish(other, receiving).result, 0);
    check_nothing_borrowed(finish(other, borrowed), 0);
    CHECK_EQ(finish(other, sending).result, -EPIPE);
    driver_free(other);
    driver_free(c.d);
}

static void it_ends_waiting_sends_on_other_loops(void)
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

static void it_wakes_a_sleeping_loop(void)
{
    connection c = tcp_connection();
    driver *other = driver_new_beside(c.d);
    char byte;
    mr_token token = start(other, recv_request(c.handle, &byte, 1));
    pthread_t thread;
    start_thread(&thread, finish_elsewhere, &(waiting){other, token});
    sleep_ms(20);
    CHECK_EQ(shut(c.d, c.handle, SHUT_RD), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    driver_free(other);
    driver_free(c.d);
}

static void it_ends_waits(void)
{
    connection c = tcp_connection();
    fill(c.number);
    mr_token reading = start(c.d, wait_request(MR_WAIT_READABLE, c.handle));
    mr_token writing = start(c.d, wait_request(MR_WAIT_WRITABLE, c.handle));
    run_for_ms(c.d, 5);
    CHECK_EQ(shut(c.d, c.handle, SHUT_RD), 0);
    CHECK_EQ(finish(c.d, reading).result, 0);
    CHECK_EQ(shut(c.d, c.handle, SHUT_WR), 0);
    CHECK_EQ(finish(c.d, writing).result, 0);
    if (conform_backend != MR_BACKEND_IOCP) { /* see millrace.h */
        CHECK_EQ(perform(c.d, wait_request(MR_WAIT_READABLE, c.handle)).result, 0);
        CHECK_EQ(perform(c.d, wait_request(MR_WAIT_WRITABLE, c.handle)).result, 0);
    }
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
    CASE(shut_for_sending_a_unix_socket_ends_all_waiting_sends),
    CASE(it_ends_a_borrowing_receive),
    CASE(it_ends_what_waits_on_other_loops),
    CASE(it_ends_waiting_sends_on_other_loops),
    CASE(it_wakes_a_sleeping_loop),
    CASE(it_ends_waits),
    CASE(mistakes_are_errors),
    {0},
};
