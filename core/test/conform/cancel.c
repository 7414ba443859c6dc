/* cancel.c: mr_loop_cancel on every kind of operation, and its races. */
#include "conform.h"

static void every_kind_can_be_cancelled(void)
{
    stuck s;
    make_stuck(&s);
    for (int i = 0; i < STUCK_KINDS; i++) {
        for (unsigned wait_ms = 0; wait_ms < 3; wait_ms++) {
            mr_token token = start(s.d, stuck_request(&s, i));
            if (wait_ms > 0)
                run_for_ms(s.d, wait_ms);
            mr_loop_cancel(driver_loop(s.d), token);
            mr_completion completion = finish(s.d, token);
            CHECK_EQ(completion.result, -ECANCELED);
            CHECK_EQ(completion.transferred, 0);
        }
    }
    driver_free(s.d);
}

static void one_of_many_is_meant(void)
{
    stuck s;
    make_stuck(&s);
    mr_token tokens[STUCK_KINDS];
    for (int i = 0; i < STUCK_KINDS; i++)
        tokens[i] = start(s.d, stuck_request(&s, i));
    run_for_ms(s.d, 2);
    uint64_t resubmissions = counters_of(s.d).resubmissions;
    for (int i = 0; i < STUCK_KINDS; i++) {
        mr_loop_cancel(driver_loop(s.d), tokens[i]);
        CHECK_EQ(finish(s.d, tokens[i]).result, -ECANCELED);
        run_for_ms(s.d, 2);
        for (int j = i + 1; j < STUCK_KINDS; j++)
            CHECK(!has_arrived(s.d, tokens[j]));
    }
    /* The others were not touched: neither cancelled nor restarted. */
    CHECK_EQ(counters_of(s.d).resubmissions, resubmissions);
    driver_free(s.d);
}

static void all_at_once(void)
{
    stuck s;
    make_stuck(&s);
    mr_token tokens[STUCK_KINDS];
    for (int i = 0; i < STUCK_KINDS; i++)
        tokens[i] = start(s.d, stuck_request(&s, i));
    for (int i = STUCK_KINDS - 1; i >= 0; i--)
        mr_loop_cancel(driver_loop(s.d), tokens[i]);
    for (int i = 0; i < STUCK_KINDS; i++)
        CHECK_EQ(finish(s.d, tokens[i]).result, -ECANCELED);
    driver_free(s.d);
}

/* One byte for two receives: the second has begun because the socket was readable, and is cancelled when it is not any
   more. */
static void what_lost_the_race_for_bytes_ends(void)
{
    connection c = local_connection();
    char bytes[3];
    write_all(c.peer, "1", 1);
    CHECK_EQ(perform(c.d, recv_request(c.handle, &bytes[0], 1)).result, 1);
    write_all(c.peer, "2", 1);
    mr_completion first, second;
    bool first_waits = submit(c.d, recv_request(c.handle, &bytes[1], 1), &first);
    bool second_waits = submit(c.d, recv_request(c.handle, &bytes[2], 1), &second);
    CHECK(second_waits);
    mr_loop_cancel(driver_loop(c.d), second.token);
    int64_t result = finish(c.d, second.token).result;
    CHECK(result == -ECANCELED || result == 1);
    if (first_waits && result == 1)
        write_all(c.peer, "3", 1);
    CHECK_EQ(first_waits ? finish(c.d, first.token).result : first.result, 1);
    driver_free(c.d);
}

static void twice_is_once(void)
{
    stuck s;
    make_stuck(&s);
    for (int i = 0; i < STUCK_KINDS; i++) {
        mr_token token = start(s.d, stuck_request(&s, i));
        mr_loop_cancel(driver_loop(s.d), token);
        mr_loop_cancel(driver_loop(s.d), token);
        CHECK_EQ(finish(s.d, token).result, -ECANCELED);
        mr_loop_cancel(driver_loop(s.d), token);
        run_for_ms(s.d, 1);
    }
    driver_free(s.d);
}

/* The first reason to end stands. */
static void a_close_after_it_changes_nothing(void)
{
    connection c = local_connection();
    char byte;
    mr_token cancelled = start(c.d, recv_request(c.handle, &byte, 1));
    mr_token other = start(c.d, recv_request(c.handle, &byte, 1));
    run_for_ms(c.d, 1);
    mr_loop_cancel(driver_loop(c.d), cancelled);
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    CHECK_EQ(finish(c.d, cancelled).result, -ECANCELED);
    CHECK_EQ(finish(c.d, other).result, -EBADF);
    driver_free(c.d);
}

/* Ended, but not polled yet: cancelling is too late, the result stands. */
static void too_late_changes_nothing(void)
{
    connection c = local_connection();
    char byte;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    write_all(c.peer, "x", 1);
    while (!has_arrived(c.d, token))
        poll_once(c.d);
    mr_loop_cancel(driver_loop(c.d), token);
    CHECK_EQ(finish(c.d, token).result, 1);
    mr_loop_cancel(driver_loop(c.d), token);
    run_for_ms(c.d, 1);
    driver_free(c.d);
}

/* A token of an earlier operation must not end the operation that has its slot now. */
static void a_stale_token_is_ignored(void)
{
    connection c = local_connection();
    char byte;
    mr_token first = start(c.d, recv_request(c.handle, &byte, 1));
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, first).result, 1);
    mr_token second = start(c.d, recv_request(c.handle, &byte, 1));
    CHECK_EQ(mr_token_slot(first), mr_token_slot(second));
    CHECK_NE(first, second);
    mr_loop_cancel(driver_loop(c.d), first);
    mr_loop_update(driver_loop(c.d), first, 1);
    CHECK_EQ(mr_loop_discard(driver_loop(c.d), first), 0);
    mr_loop_release(driver_loop(c.d), first);
    CHECK_STAYS_PENDING(c.d, second);
    write_all(c.peer, "y", 1);
    CHECK_EQ(finish(c.d, second).result, 1);
    driver_free(c.d);
}

static void nonsense_tokens_are_ignored(void)
{
    static const mr_token nonsense[] = {0, 1, 12345, (UINT64_C(1) << 60) - 1, UINT64_MAX};
    driver *d = driver_new();
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        mr_loop_cancel(driver_loop(d), nonsense[i]);
        mr_loop_update(driver_loop(d), nonsense[i], 1);
        mr_loop_release(driver_loop(d), nonsense[i]);
        CHECK_EQ(mr_loop_discard(driver_loop(d), nonsense[i]), 0);
        mr_loop_cancel_remote(driver_loop(d), nonsense[i]);
    }
    run_for_ms(d, 1);
    driver_free(d);
}

/* The byte arrives while the receive is being cancelled: either it was received, or it is still there. */
static void the_result_and_the_bytes_agree(void)
{
    connection c = tcp_connection();
    unsigned cancelled = 0, rounds = harness_rounds(2000);
    uint64_t random = 42;
    for (unsigned round = 0; round < rounds; round++) {
        char byte = 0, sent = (char)round;
        mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
        bool cancel_first = harness_random(&random) % 2;
        if (harness_random(&random) % 2)
            poll_once(c.d);
        if (cancel_first)
            mr_loop_cancel(driver_loop(c.d), token);
        if (harness_random(&random) % 2)
            poll_once(c.d);
        write_all(c.peer, &sent, 1);
        if (harness_random(&random) % 2)
            poll_once(c.d);
        mr_loop_cancel(driver_loop(c.d), token);
        mr_completion completion = finish(c.d, token);
        if (completion.result == -ECANCELED) {
            cancelled++;
            CHECK_EQ(perform(c.d, recv_request(c.handle, &byte, 1)).result, 1);
        } else {
            CHECK_EQ(completion.result, 1);
        }
        CHECK_EQ(byte, sent);
    }
    CHECK_GT(cancelled, 0);
    driver_free(c.d);
}

/* A connection that is accepted while the accept is being cancelled is in the result, or still in the queue. */
static void no_connection_is_lost(void)
{
    driver *d = driver_new();
    struct sockaddr_in address;
    unsigned rounds = harness_rounds(1000);
    uint64_t random = 17;
    mr_handle listener = adopt(d, tcp_listener(16, &address));
    int descriptors = open_descriptors();
    for (unsigned round = 0; round < rounds; round++) {
        mr_token token = start(d, accept_request(listener, NULL));
        if (harness_random(&random) % 2)
            poll_once(d);
        if (harness_random(&random) % 2)
            mr_loop_cancel(driver_loop(d), token);
        int client = connect_to(&address);
        mr_loop_cancel(driver_loop(d), token);
        mr_completion completion = finish(d, token);
        if (completion.result == -ECANCELED)
            completion = perform(d, accept_request(listener, NULL));
        CHECK_GE(completion.result, 0);
        reset(client);
        hang_up((int)completion.result);
    }
    CHECK_EQ(open_descriptors(), descriptors);
    driver_free(d);
}

static void check_interrupted(driver *d, mr_token token)
{
    CHECK_EQ(finish(d, token).result, -EINTR);
}

static void receivers_can_be_interrupted(void)
{
    connection c = tcp_connection();
    mr_group *group = driver_group(c.d);
    char bytes[2];
    struct iovec element = {bytes, 1};
    fill(c.number);
    mr_token receiving = start(c.d, recv_request(c.handle, bytes, 1));
    mr_token borrowed = start(c.d, borrowing_request(c.handle, 100));
    mr_token vector = start(c.d, vector_request(MR_RECV_VECTOR, c.handle, &element, 1));
    mr_token waiting = start(c.d, wait_request(MR_WAIT_READABLE, c.handle));
    mr_token sending = start(c.d, send_request(c.handle, "x", 1));
    CHECK_STAYS_PENDING(c.d, waiting);
    CHECK_EQ(mr_group_interrupt(group, driver_loop(c.d), c.handle), 0);
    check_interrupted(c.d, receiving);
    check_interrupted(c.d, borrowed);
    check_interrupted(c.d, vector);
    check_interrupted(c.d, waiting);
    CHECK_STAYS_PENDING(c.d, sending);
    mr_loop_cancel(driver_loop(c.d), sending);
    finish(c.d, sending);
    receiving = start(c.d, recv_request(c.handle, bytes, 1));
    CHECK_STAYS_PENDING(c.d, receiving);
    write_all(c.peer, "y", 1);
    CHECK_EQ(finish(c.d, receiving).result, 1);
    CHECK_EQ(perform(c.d, close_request(c.handle)).result, 0);
    CHECK_EQ(mr_group_interrupt(group, driver_loop(c.d), c.handle), -EBADF);
    driver_free(c.d);
}

static void an_acceptor_of_another_loop_can_be_interrupted(void)
{
    driver *d = driver_new();
    driver *other = driver_new_beside(d);
    struct sockaddr_in address;
    mr_handle listener = adopt(d, tcp_listener(1, &address));
    mr_token accepting = start(other, accept_request(listener, NULL));
    CHECK_EQ(mr_group_interrupt(driver_group(d), driver_loop(d), listener), 0);
    check_interrupted(other, accepting);
    driver_free(other);
    driver_free(d);
}

/* Even if it is interrupted, its bytes arrive exactly once. */
static void a_send_then_receive_is_interrupted_when_it_has_sent(void)
{
    connection c = tcp_connection();
    for (unsigned polls = 0; polls < 3; polls++) {
        mr_buffer *buffer = borrow_from(c.d);
        char answer[3];
        memcpy(buffer->bytes, "ask", 3);
        mr_token token = start(c.d, send_then_receive_request(c.handle, buffer, 0, 3));
        for (unsigned i = 0; i < polls; i++)
            poll_once(c.d);
        CHECK_EQ(mr_group_interrupt(driver_group(c.d), driver_loop(c.d), c.handle), 0);
        check_interrupted(c.d, token);
        CHECK_EQ(read_some(c.peer, answer, 3), 3);
        CHECK_MEMORY(answer, "ask", 3);
    }
    driver_free(c.d);
}

static void memory_does_not_grow_by_cancelling(void)
{
    stuck s;
    make_stuck(&s);
    uint32_t highest_slot = 0;
    for (unsigned round = 0; round < harness_rounds(5000); round++) {
        mr_token token = start(s.d, stuck_request(&s, (int)(round % STUCK_KINDS)));
        mr_loop_cancel(driver_loop(s.d), token);
        CHECK_EQ(finish(s.d, token).result, -ECANCELED);
        highest_slot = mr_token_slot(token) > highest_slot ? mr_token_slot(token) : highest_slot;
    }
    CHECK_LT(highest_slot, 1000);
    driver_free(s.d);
}

const conform_case cancel_cases[] = {
    CASE(every_kind_can_be_cancelled),
    CASE(one_of_many_is_meant),
    CASE(all_at_once),
    CASE(what_lost_the_race_for_bytes_ends),
    CASE(twice_is_once),
    CASE(a_close_after_it_changes_nothing),
    CASE(too_late_changes_nothing),
    CASE(a_stale_token_is_ignored),
    CASE(nonsense_tokens_are_ignored),
    CASE(the_result_and_the_bytes_agree),
    CASE(no_connection_is_lost),
    CASE(receivers_can_be_interrupted),
    CASE(an_acceptor_of_another_loop_can_be_interrupted),
    CASE(a_send_then_receive_is_interrupted_when_it_has_sent),
    CASE(memory_does_not_grow_by_cancelling),
    {0},
};
