/* wait.c: MR_WAIT_READABLE and MR_WAIT_WRITABLE, on adopted and on foreign descriptors. */
#include "conform.h"

static void readable_now_and_later(void)
{
    connection c = local_connection();
    mr_token token = start(c.d, wait_request(MR_WAIT_READABLE, c.handle));
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 0);
    /* Still readable: the wait has consumed nothing. */
    CHECK_EQ(perform(c.d, wait_request(MR_WAIT_READABLE, c.handle)).result, 0);
    CHECK_EQ(perform(c.d, wait_request(MR_WAIT_READABLE, c.handle)).result, 0);
    CHECK_EQ(drain(c.number), 1);
    token = start(c.d, wait_request(MR_WAIT_READABLE, c.handle));
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 0);
    driver_free(c.d);
}

static void writable_now_and_later(void)
{
    connection c = local_connection();
    CHECK_EQ(perform(c.d, wait_request(MR_WAIT_WRITABLE, c.handle)).result, 0);
    fill(c.number);
    mr_token token = start(c.d, wait_request(MR_WAIT_WRITABLE, c.handle));
    CHECK_STAYS_PENDING(c.d, token);
    CHECK_EQ(finish_while_read(c.d, token, c.peer).result, 0);
    driver_free(c.d);
}

static void a_wait_and_a_receive_on_one_socket(void)
{
    connection c = tcp_connection();
    char byte;
    mr_token waiting = start(c.d, wait_request(MR_WAIT_READABLE, c.handle));
    mr_token receiving = start(c.d, recv_request(c.handle, &byte, 1));
    poll_once(c.d);
    write_all(c.peer, "xy", 2);
    CHECK_EQ(finish(c.d, receiving).result, 1);
    CHECK_EQ(finish(c.d, waiting).result, 0);
    driver_free(c.d);
}

static void readers_learn_that_the_peer_has_gone(void)
{
    connection c = tcp_connection();
    mr_token token = start(c.d, wait_request(MR_WAIT_READABLE, c.handle));
    poll_once(c.d);
    hang_up(c.peer);
    CHECK_EQ(finish(c.d, token).result, 0);
    CHECK_EQ(perform(c.d, wait_request(MR_WAIT_READABLE, c.handle)).result, 0);
    driver_free(c.d);
}

static void both_directions_learn_of_a_reset(void)
{
    connection c = tcp_connection();
    fill(c.number);
    mr_token reading = start(c.d, wait_request(MR_WAIT_READABLE, c.handle));
    mr_token writing = start(c.d, wait_request(MR_WAIT_WRITABLE, c.handle));
    run_for_ms(c.d, 5);
    reset(c.peer);
    CHECK_EQ(finish(c.d, reading).result, 0);
    CHECK_EQ(finish(c.d, writing).result, 0);
    driver_free(c.d);
}

/* The peer sends no more, and its buffer is full too. */
static void the_end_of_a_stream_makes_nothing_writable(void)
{
    driver *d = driver_new();
    int pair[2];
    local_pair(pair);
    fill(pair[0]);
    mr_handle handle = mr_handle_foreign(pair[0]);
    mr_token reading = start(d, wait_request(MR_WAIT_READABLE, handle));
    mr_token writing = start(d, wait_request(MR_WAIT_WRITABLE, handle));
    run_for_ms(d, 2);
    end_stream(pair[1]);
    CHECK_EQ(finish(d, reading).result, 0);
    CHECK_STAYS_PENDING(d, writing);
    drain(pair[1]);
    CHECK_EQ(finish(d, writing).result, 0);
    driver_free(d);
}

static void readers_and_writers_of_a_foreign_descriptor(void)
{
    driver *d = driver_new();
    int pair[2];
    local_pair(pair);
    fill(pair[0]);
    mr_handle handle = mr_handle_foreign(pair[0]);
    mr_token reading[3], writing[3];
    for (int i = 0; i < 3; i++) {
        reading[i] = start(d, wait_request(MR_WAIT_READABLE, handle));
        writing[i] = start(d, wait_request(MR_WAIT_WRITABLE, handle));
    }
    run_for_ms(d, 5);
    mr_loop_cancel(driver_loop(d), reading[1]);
    CHECK_EQ(finish(d, reading[1]).result, -ECANCELED);
    drain(pair[1]);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(finish(d, writing[i]).result, 0);
    CHECK_STAYS_PENDING(d, reading[0]);
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, reading[0]).result, 0);
    CHECK_EQ(finish(d, reading[2]).result, 0);
    driver_free(d);
}

static mr_completion wait_after_try(driver *d, int number)
{
    return perform(d, with_flags(wait_request(MR_WAIT_READABLE, mr_handle_foreign(number)), MR_TRIED));
}

/* MR_TRIED may be wrong. */
static void after_a_try_nobody_looks(void)
{
    driver *d = driver_new();
    int pair[2];
    local_pair(pair);
    mr_token token = start(d, with_flags(wait_request(MR_WAIT_READABLE, mr_handle_foreign(pair[0])), MR_TRIED));
    CHECK_STAYS_PENDING(d, token);
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 0);
    CHECK_EQ(wait_after_try(d, pair[0]).result, 0);
    hang_up(pair[0]);
    CHECK_EQ(wait_after_try(d, pair[0]).result, -EBADF);
    driver_free(d);
}

static void a_closed_number_is_an_error(void)
{
    driver *d = driver_new();
    int closed = tcp_socket();
    hang_up(closed);
    CHECK_EQ(perform(d, wait_request(MR_WAIT_READABLE, mr_handle_foreign(closed))).result, -EBADF);
    CHECK_EQ(perform(d, wait_request(MR_WAIT_WRITABLE, mr_handle_foreign(-1))).result, -EBADF);
    driver_free(d);
}

const conform_case wait_cases[] = {
    CASE(readable_now_and_later),
    CASE(writable_now_and_later),
    CASE(a_wait_and_a_receive_on_one_socket),
    CASE(readers_learn_that_the_peer_has_gone),
    CASE(both_directions_learn_of_a_reset),
    CASE(the_end_of_a_stream_makes_nothing_writable),
    CASE(readers_and_writers_of_a_foreign_descriptor),
    CASE(after_a_try_nobody_looks),
    CASE(a_closed_number_is_an_error),
    {0},
};
