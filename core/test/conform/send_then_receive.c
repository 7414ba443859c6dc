/* send_then_receive.c: MR_SEND_THEN_RECEIVE, which sends from a borrowed buffer and then receives into one. */
#include "conform.h"

/* A borrowed buffer that holds a text from an offset on. */
static mr_buffer *borrowed_text(driver *d, size_t offset, const char *text)
{
    mr_buffer *buffer = borrow_from(d);
    CHECK(buffer);
    memcpy(buffer->bytes + offset, text, strlen(text));
    return buffer;
}

static mr_request send_then_receive_of(const connection *c, const char *text)
{
    return send_then_receive_request(c->handle, borrowed_text(c->d, 0, text), 0, strlen(text));
}

static void check_read(int descriptor, const char *expected)
{
    char bytes[100];
    size_t size = strlen(expected);
    for (size_t count = 0; count < size;) {
        size_t part = read_some(descriptor, bytes + count, size - count);
        CHECK_GT(part, 0); /* or it is the end */
        count += part;
    }
    CHECK_MEMORY(bytes, expected, size);
}

static void it_sends_then_waits_for_bytes(void)
{
    connection c = tcp_connection();
    for (int round = 0; round < 3; round++) {
        mr_token token = start(c.d, send_then_receive_of(&c, "question"));
        CHECK_STAYS_PENDING(c.d, token);
        check_read(c.peer, "question");
        write_all(c.peer, "answer", 6);
        check_borrowed(c.d, finish(c.d, token), "answer");
    }
    driver_free(c.d);
}

static void what_is_there_already_is_received(void)
{
    connection c = tcp_connection();
    write_all(c.peer, "early", 5);
    check_borrowed(c.d, perform(c.d, send_then_receive_of(&c, "late")), "early");
    check_read(c.peer, "late");
    driver_free(c.d);
}

static void it_sends_a_part_of_the_buffer(void)
{
    connection c = local_connection();
    mr_buffer *buffer = borrowed_text(c.d, 1000, "unsaid said unsaid");
    mr_token token = start(c.d, send_then_receive_request(c.handle, buffer, 1007, 4));
    poll_once(c.d);
    check_read(c.peer, "said");
    char byte;
    CHECK_EQ(read_now(c.peer, &byte, 1), -EAGAIN);
    hang_up(c.peer);
    check_nothing_borrowed(finish(c.d, token), 0);
    driver_free(c.d);
}

static void the_last_byte_of_a_buffer_can_be_sent(void)
{
    connection c = local_connection();
    mr_buffer *buffer = borrowed_text(c.d, MR_BUFFER_BYTES - 1, "x");
    mr_token token = start(c.d, send_then_receive_request(c.handle, buffer, MR_BUFFER_BYTES - 1, 1));
    poll_once(c.d);
    check_read(c.peer, "x");
    end_stream(c.peer);
    check_nothing_borrowed(finish(c.d, token), 0);
    driver_free(c.d);
}

/* The sent buffer is free again before anything is received. The first round allocates the buffers that a backend
 * keeps. */
static void a_waiting_send_then_receive_holds_no_buffer(void)
{
    connection c = tcp_connection();
    int64_t kept = 0;
    for (int round = 0; round < 3; round++) {
        mr_token token = start(c.d, send_then_receive_of(&c, "short"));
        CHECK_STAYS_PENDING(c.d, token);
        check_read(c.peer, "short");
        if (round > 0)
            CHECK_EQ(mr_loop_buffers_in_use(driver_loop(c.d)), kept);
        write_all(c.peer, "x", 1);
        check_borrowed(c.d, finish(c.d, token), "x");
        kept = mr_loop_buffers_in_use(driver_loop(c.d));
    }
    driver_free(c.d);
}

static void while_the_send_waits_nothing_is_received(void)
{
    connection c = tcp_connection();
    fill(c.number);
    write_all(c.peer, "waits", 5);
    mr_buffer *buffer = borrowed_text(c.d, 0, "too much");
    mr_completion completion = perform(c.d, send_then_receive_request(c.handle, buffer, 0, 8));
    check_nothing_borrowed(completion, mr_not_sent(0));
    CHECK_EQ(mr_sent_only(completion.result), 0);
    CHECK_MEMORY(buffer->bytes, "too much", 8); /* ours again */
    mr_loop_give_back(driver_loop(c.d), buffer);
    check_borrowed(c.d, perform(c.d, borrowing_request(c.handle, 100)), "waits");
    driver_free(c.d);
}

#ifndef _WIN32 /* on Windows a send takes all or nothing, and Wine needs half a minute for this */
/* Until nothing more can be sent, at any number of bytes. None is lost, and none is sent twice. */
static void a_part_that_was_sent_is_counted(void)
{
    connection c = tcp_connection();
    limit_send_buffer(c.number, 8 * MR_BUFFER_BYTES);
    uint64_t position = 0, refusals = 0;
    slow_reader *reader = NULL;
    while (refusals < 3) {
        mr_buffer *buffer = borrow_from(c.d);
        fill_pattern(buffer->bytes, position, MR_BUFFER_BYTES);
        mr_completion completion;
        if (submit(c.d, send_then_receive_request(c.handle, buffer, 0, MR_BUFFER_BYTES), &completion)) {
            poll_once(c.d);
            mr_loop_cancel(driver_loop(c.d), completion.token);
            completion = finish(c.d, completion.token);
        }
        int64_t sent = mr_sent_only(completion.result);
        if (sent < 0) {
            CHECK_EQ(completion.result, -ECANCELED);
            position += MR_BUFFER_BYTES;
            continue;
        }
        CHECK_LE(sent, MR_BUFFER_BYTES - 1);
        position += (uint64_t)sent;
        mr_loop_give_back(driver_loop(c.d), buffer);
        refusals++;
        if (!reader)
            reader = slow_reader_start(c.peer);
        run_for_ms(c.d, 20);
    }
    CHECK_EQ(perform(c.d, shutdown_request(c.handle, SHUT_WR)).result, 0);
    CHECK_EQ(slow_reader_finish(reader), position);
    driver_free(c.d);
}
#endif

static void it_ends_at_the_end_of_the_stream(void)
{
    connection c = tcp_connection();
    mr_token token = start(c.d, send_then_receive_of(&c, "last"));
    poll_once(c.d);
    check_read(c.peer, "last");
    hang_up(c.peer);
    check_nothing_borrowed(finish(c.d, token), 0);
    driver_free(c.d);
}

/* Some systems notice it only at the answer to the first bytes, after the end of the stream was received. */
static void a_peer_that_is_gone_is_an_error(void)
{
    connection c = local_connection();
    hang_up(c.peer);
    mr_completion completion = perform(c.d, send_then_receive_of(&c, "nobody"));
    for (int tries = 0; completion.result == 0 && tries < 1000; tries++) {
        sleep_ms(1);
        completion = perform(c.d, send_then_receive_of(&c, "nobody"));
    }
    check_broken(completion.result);
    CHECK(!completion.buffer);
    driver_free(c.d);
}

static void its_deadline_is_for_the_receive(void)
{
    connection c = tcp_connection();
    mr_request request = with_deadline(send_then_receive_of(&c, "hurry"), in_ms(30));
    uint64_t until_ns = request.deadline_ns;
    check_nothing_borrowed(perform(c.d, request), -ETIMEDOUT);
    CHECK_GE(clock_ns(), until_ns);
    check_read(c.peer, "hurry");
    request = with_flags(with_deadline(send_then_receive_of(&c, "again"), 10 * NS_PER_MS), MR_WITHIN);
    check_nothing_borrowed(perform(c.d, request), -ETIMEDOUT);
    check_read(c.peer, "again");
    driver_free(c.d);
}

/* Cancelled at once, while on some backends nothing of it has reached the kernel yet. */
static void cancelled_it_has_sent_all_the_same(void)
{
    connection c = tcp_connection();
    mr_token token = start(c.d, send_then_receive_of(&c, "sent"));
    mr_loop_cancel(driver_loop(c.d), token);
    check_nothing_borrowed(finish(c.d, token), -ECANCELED);
    check_read(c.peer, "sent");
    driver_free(c.d);
}

static void closed_it_has_sent_all_the_same(void)
{
    connection c = tcp_connection();
    mr_token token = start(c.d, send_then_receive_of(&c, "sent"));
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    check_nothing_borrowed(finish(c.d, token), -EBADF);
    check_read(c.peer, "sent");
    char byte;
    CHECK_EQ(read_some(c.peer, &byte, 1), 0);
    driver_free(c.d);
}

/* More of them than a backend's queue can hold, all cancelled before the first poll. */
static void a_crowd_that_is_cancelled_has_sent(void)
{
    enum { COUNT = 1500, PER_CONNECTION = 50 };
    driver *d = driver_new();
    mr_token tokens[COUNT];
    int peers[COUNT / PER_CONNECTION];
    mr_handle handle = 0;
    for (int i = 0; i < COUNT; i++) {
        if (i % PER_CONNECTION == 0) {
            int pair[2];
            local_pair(pair);
            handle = adopt(d, pair[0]);
            peers[i / PER_CONNECTION] = pair[1];
        }
        mr_buffer *buffer = borrowed_text(d, 0, "x");
        tokens[i] = start(d, send_then_receive_request(handle, buffer, 0, 1));
    }
    for (int i = 0; i < COUNT; i++)
        mr_loop_cancel(driver_loop(d), tokens[i]);
    for (int i = 0; i < COUNT; i++)
        check_nothing_borrowed(finish(d, tokens[i]), -ECANCELED);
    for (int i = 0; i < COUNT / PER_CONNECTION; i++)
        CHECK_EQ(drain(peers[i]), PER_CONNECTION);
    driver_free(d);
}

static void it_sends_while_another_receive_waits(void)
{
    connection c = tcp_connection();
    mr_token first = start(c.d, borrowing_request(c.handle, 3));
    mr_token second = start(c.d, send_then_receive_of(&c, "now"));
    CHECK_STAYS_PENDING(c.d, second);
    check_read(c.peer, "now");
    mr_loop_cancel(driver_loop(c.d), first);
    check_nothing_borrowed(finish(c.d, first), -ECANCELED);
    write_all(c.peer, "two", 3);
    check_borrowed(c.d, finish(c.d, second), "two");
    driver_free(c.d);
}

/* Only the receive part of the send-then-receive would have noticed whether there is something to receive. */
static void one_that_ends_before_it_receives_holds_up_no_other_receive(void)
{
    connection c = tcp_connection();
    mr_token first = start(c.d, borrowing_request(c.handle, 3));
    write_all(c.peer, "onetwo", 6);
    check_borrowed(c.d, finish(c.d, first), "one");
    poll_once(c.d);
    fill(c.number);
    mr_buffer *buffer = borrowed_text(c.d, 0, "too much");
    mr_completion sent;
    bool is_pending = submit(c.d, send_then_receive_request(c.handle, buffer, 0, 8), &sent);
    check_borrowed(c.d, perform(c.d, borrowing_request(c.handle, 3)), "two");
    if (is_pending)
        sent = finish(c.d, sent.token);
    check_nothing_borrowed(sent, mr_not_sent(0));
    mr_loop_give_back(driver_loop(c.d), buffer);
    driver_free(c.d);
}

/* Polls the completion of a receive, and does not poll again for a while. */
static void take_a_slow_turn(const connection *c, mr_token receive, bool asks_again)
{
    write_all(c->peer, "question", 8);
    check_borrowed(c->d, finish(c->d, receive), "question");
    if (asks_again)
        CHECK_EQ(poll_once(c->d), 0);
    sleep_ms(20);
    CHECK_EQ(poll_once(c->d), 0);
}

static void check_sent_at_once(const connection *c)
{
    mr_token token = start(c->d, send_then_receive_of(c, "answer"));
    check_read(c->peer, "answer");
    mr_loop_cancel(driver_loop(c->d), token);
    check_nothing_borrowed(finish(c->d, token), -ECANCELED);
}

/* Threads woken by one poll compute until the next one. Their sends must not wait for the poll after that. */
static void after_a_slow_turn_it_sends_at_once(void)
{
    connection c = tcp_connection();
    take_a_slow_turn(&c, start(c.d, borrowing_request(c.handle, 8)), false);
    check_sent_at_once(&c);
    driver_free(c.d);
}

/* As owners do after many completions, and before they wait. */
static void polls_in_a_row_are_no_quick_turns(void)
{
    connection c = tcp_connection();
    mr_token first = start(c.d, borrowing_request(c.handle, 8)), second = start(c.d, borrowing_request(c.handle, 8));
    take_a_slow_turn(&c, first, true);
    write_all(c.peer, "question", 8);
    check_borrowed(c.d, finish(c.d, second), "question");
    CHECK_EQ(poll_once(c.d), 0);
    check_sent_at_once(&c);
    driver_free(c.d);
}

static void it_goes_before_a_shutdown(void)
{
    connection c = tcp_connection();
    mr_token token = start(c.d, send_then_receive_of(&c, "last words"));
    CHECK_EQ(perform(c.d, shutdown_request(c.handle, SHUT_WR)).result, 0);
    check_read(c.peer, "last words");
    hang_up(c.peer);
    check_nothing_borrowed(finish(c.d, token), 0);
    driver_free(c.d);
}

static void mistakes_are_refused(void)
{
    connection c = local_connection();
    mr_buffer *buffer = borrow_from(c.d);
    check_nothing_borrowed(perform(c.d, send_then_receive_request(c.handle, NULL, 0, 1)), -EINVAL);
    check_nothing_borrowed(perform(c.d, send_then_receive_request(c.handle, buffer, 0, 0)), -EINVAL);
    check_nothing_borrowed(perform(c.d, send_then_receive_request(c.handle, buffer, 1, MR_BUFFER_BYTES)), -EINVAL);
    check_nothing_borrowed(perform(c.d, send_then_receive_request(c.handle, buffer, UINT64_MAX, 2)), -EINVAL);
    const uint32_t flags[] = {MR_ALL, MR_NOW, MR_BORROW};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        check_nothing_borrowed(perform(c.d, with_flags(send_then_receive_request(c.handle, buffer, 0, 1), flags[i])),
                               -EINVAL);
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    check_nothing_borrowed(perform(c.d, send_then_receive_request(c.handle, buffer, 0, 1)),
                           -EBADF); /* which takes the buffer */
    driver_free(c.d);
}

const conform_case send_then_receive_cases[] = {
    CASE(it_sends_then_waits_for_bytes),
    CASE(what_is_there_already_is_received),
    CASE(it_sends_a_part_of_the_buffer),
    CASE(the_last_byte_of_a_buffer_can_be_sent),
    CASE(a_waiting_send_then_receive_holds_no_buffer),
    CASE(while_the_send_waits_nothing_is_received),
#ifndef _WIN32
    CASE(a_part_that_was_sent_is_counted),
#endif
    CASE(it_ends_at_the_end_of_the_stream),
    CASE(a_peer_that_is_gone_is_an_error),
    CASE(its_deadline_is_for_the_receive),
    CASE(cancelled_it_has_sent_all_the_same),
    CASE(closed_it_has_sent_all_the_same),
    CASE(a_crowd_that_is_cancelled_has_sent),
    CASE(it_sends_while_another_receive_waits),
    CASE(one_that_ends_before_it_receives_holds_up_no_other_receive),
    CASE(after_a_slow_turn_it_sends_at_once),
    CASE(polls_in_a_row_are_no_quick_turns),
    CASE(it_goes_before_a_shutdown),
    CASE(mistakes_are_refused),
    {0},
};
