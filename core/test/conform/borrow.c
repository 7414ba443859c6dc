/* borrow.c: MR_RECV with MR_BORROW, where the loop provides the buffer. */
#include "conform.h"

static void takes_what_is_there(void)
{
    connection c = local_connection();
    write_all(c.peer, "hello", 5);
    check_borrowed(c.d, perform(c.d, borrowing_request(c.handle, 100)), "hello");
    driver_free(c.d);
}

static void waits_for_bytes(void)
{
    connection c = tcp_connection();
    for (int round = 0; round < 3; round++) {
        mr_token token = start(c.d, borrowing_request(c.handle, 100));
        CHECK_STAYS_PENDING(c.d, token);
        write_all(c.peer, "later", 5);
        check_borrowed(c.d, finish(c.d, token), "later");
    }
    driver_free(c.d);
}

static void does_not_exceed_the_length(void)
{
    connection c = local_connection();
    write_all(c.peer, "abcdef", 6);
    check_borrowed(c.d, perform(c.d, borrowing_request(c.handle, 4)), "abcd");
    check_borrowed(c.d, perform(c.d, borrowing_request(c.handle, 4)), "ef");
    driver_free(c.d);
}

static void fills_a_whole_buffer_and_no_more(void)
{
    connection c = tcp_connection();
    unsigned char sent[2 * MR_BUFFER_BYTES];
    fill_pattern(sent, 0, sizeof sent);
    write_all(c.peer, sent, sizeof sent);
    for (uint64_t position = 0; position < sizeof sent;) {
        mr_completion completion = perform(c.d, borrowing_request(c.handle, SIZE_MAX));
        CHECK_GT(completion.result, 0);
        CHECK_LE(completion.result, MR_BUFFER_BYTES);
        check_pattern(completion.buffer->bytes, position, (size_t)completion.result);
        position += (uint64_t)completion.result;
        mr_loop_give_back(driver_loop(c.d), completion.buffer);
    }
    driver_free(c.d);
}

static void the_end_of_the_stream_lends_nothing(void)
{
    connection c = tcp_connection();
    mr_token token = start(c.d, borrowing_request(c.handle, 100));
    hang_up(c.peer);
    check_nothing_borrowed(finish(c.d, token), 0);
    check_nothing_borrowed(perform(c.d, borrowing_request(c.handle, 100)), 0);
    driver_free(c.d);
}

static void an_error_lends_nothing(void)
{
    connection c = tcp_connection();
    mr_token token = start(c.d, borrowing_request(c.handle, 100));
    poll_once(c.d);
    reset(c.peer);
    check_nothing_borrowed(finish(c.d, token), -ECONNRESET);
    driver_free(c.d);
}

static void now_does_not_wait(void)
{
    connection c = local_connection();
    check_nothing_borrowed(perform(c.d, with_flags(borrowing_request(c.handle, 10), MR_NOW | MR_BORROW)), -EAGAIN);
    write_all(c.peer, "abc", 3);
    check_borrowed(c.d, perform(c.d, with_flags(borrowing_request(c.handle, 10), MR_NOW | MR_BORROW)), "abc");
    driver_free(c.d);
}

static void cancel_and_close_lend_nothing(void)
{
    connection c = local_connection();
    mr_token cancelled = start(c.d, borrowing_request(c.handle, 10));
    mr_token closed = start(c.d, borrowing_request(c.handle, 10));
    poll_once(c.d);
    mr_loop_cancel(driver_loop(c.d), cancelled);
    check_nothing_borrowed(finish(c.d, cancelled), -ECANCELED);
    check_nothing_borrowed(perform(c.d, close_request(c.handle)), 0);
    check_nothing_borrowed(finish(c.d, closed), -EBADF);
    driver_free(c.d);
}

/* More of them at once than a loop ever has buffers ready, and all buffers are kept for a while. */
static void many_wait_and_each_gets_its_own(void)
{
    enum { COUNT = 300 };
    driver *d = driver_new();
    int peers[COUNT];
    mr_token tokens[COUNT];
    mr_completion completions[COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            int pair[2];
            local_pair(pair);
            peers[i] = pair[1];
            tokens[i] = start(d, borrowing_request(adopt(d, pair[0]), 100));
        }
        poll_once(d);
        for (int i = 0; i < COUNT; i++)
            write_all(peers[i], &i, sizeof i);
        for (int i = 0; i < COUNT; i++)
            completions[i] = finish(d, tokens[i]);
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ(completions[i].result, sizeof i);
            CHECK_MEMORY(completions[i].buffer->bytes, &i, sizeof i);
            mr_loop_give_back(driver_loop(d), completions[i].buffer);
            hang_up(peers[i]);
        }
    }
    driver_free(d);
}

static void a_buffer_may_go_back_to_another_loop(void)
{
    connection c = local_connection();
    driver *other = driver_new_beside(c.d);
    write_all(c.peer, "x", 1);
    mr_completion completion = perform(c.d, borrowing_request(c.handle, 10));
    CHECK(completion.buffer);
    mr_loop_give_back(driver_loop(other), completion.buffer);
    mr_buffer *borrowed = borrow_from(other);
    CHECK(borrowed == completion.buffer);
    mr_loop_give_back(driver_loop(c.d), borrowed);
    mr_buffer *fresh = mr_buffer_create();
    CHECK(fresh);
    mr_loop_give_back(driver_loop(c.d), fresh);
    driver_free(other);
    driver_free(c.d);
}

static void mistakes_are_refused(void)
{
    connection c = local_connection();
    char byte = 0;
    mr_request with_buffer = with_flags(recv_request(c.handle, &byte, 1), MR_BORROW);
    check_nothing_borrowed(perform(c.d, with_buffer), -EINVAL);
    check_nothing_borrowed(perform(c.d, borrowing_request(c.handle, 0)), -EINVAL);
    check_nothing_borrowed(perform(c.d, with_flags(borrowing_request(c.handle, 1), MR_BORROW | MR_ALL)), -EINVAL);
    check_nothing_borrowed(perform(c.d, with_flags(send_request(c.handle, NULL, 0), MR_BORROW)), -EINVAL);
    driver_free(c.d);
}

/* ------------------------------------------------------------------------------- kernels that choose no buffers --- */

#ifdef __linux__
/* On kernels before 5.19 io_uring chooses no buffers; the cases run in both ways. */
extern bool mr_io_uring_without_buffer_rings;

static void without_buffer_rings_waits_for_bytes(void)
{
    mr_io_uring_without_buffer_rings = true;
    waits_for_bytes();
}

static void without_buffer_rings_the_end_and_errors_lend_nothing(void)
{
    mr_io_uring_without_buffer_rings = true;
    the_end_of_the_stream_lends_nothing();
    an_error_lends_nothing();
    cancel_and_close_lend_nothing();
}

static void without_buffer_rings_many_wait(void)
{
    mr_io_uring_without_buffer_rings = true;
    many_wait_and_each_gets_its_own();
}
#endif

const conform_case borrow_cases[] = {
    CASE(takes_what_is_there),
    CASE(waits_for_bytes),
    CASE(does_not_exceed_the_length),
    CASE(fills_a_whole_buffer_and_no_more),
    CASE(the_end_of_the_stream_lends_nothing),
    CASE(an_error_lends_nothing),
    CASE(now_does_not_wait),
    CASE(cancel_and_close_lend_nothing),
    CASE(many_wait_and_each_gets_its_own),
    CASE(a_buffer_may_go_back_to_another_loop),
    CASE(mistakes_are_refused),
#ifdef __linux__
    CASE(without_buffer_rings_waits_for_bytes),
    CASE(without_buffer_rings_the_end_and_errors_lend_nothing),
    CASE(without_buffer_rings_many_wait),
#endif
    {0},
};
