/* deadline.c: the deadline of an operation. */
#include "conform.h"

static void every_kind_can_time_out(void)
{
    stuck s;
    make_stuck(&s);
    for (int i = 0; i < STUCK_SOCKET_KINDS; i++) {
        uint64_t deadline_ns = in_ms(5);
        mr_completion completion = perform(s.d, with_deadline(stuck_request(&s, i), deadline_ns));
        CHECK_EQ(completion.result, -ETIMEDOUT);
        CHECK_EQ(completion.transferred, 0);
        CHECK_GE(clock_ns(), deadline_ns);
    }
    driver_free(s.d);
}

static void the_past_is_a_deadline(void)
{
    stuck s;
    make_stuck(&s);
    for (int i = 0; i < STUCK_SOCKET_KINDS; i++) {
        CHECK_EQ(perform(s.d, with_deadline(stuck_request(&s, i), 1)).result, -ETIMEDOUT);
        CHECK_EQ(perform(s.d, with_deadline(stuck_request(&s, i), clock_ns())).result, -ETIMEDOUT);
    }
    driver_free(s.d);
}

static void zero_is_none(void)
{
    stuck s;
    make_stuck(&s);
    mr_token tokens[STUCK_SOCKET_KINDS];
    for (int i = 0; i < STUCK_SOCKET_KINDS; i++)
        tokens[i] = start(s.d, with_deadline(stuck_request(&s, i), MR_NO_DEADLINE));
    run_for_ms(s.d, 20);
    for (int i = 0; i < STUCK_SOCKET_KINDS; i++) {
        CHECK(!has_arrived(s.d, tokens[i]));
        mr_loop_cancel(driver_loop(s.d), tokens[i]);
        CHECK_EQ(finish(s.d, tokens[i]).result, -ECANCELED);
    }
    driver_free(s.d);
}

static void the_far_future_is_fine(void)
{
    stuck s;
    make_stuck(&s);
    const uint64_t far[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2, in_ms(UINT64_C(100) * 365 * 86400 * 1000)};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        mr_token token = start(s.d, with_deadline(stuck_request(&s, 0), far[i]));
        CHECK_LE(run_for_ms(s.d, 50), 8); /* and the loop sleeps */
        CHECK(!has_arrived(s.d, token));
        mr_loop_cancel(driver_loop(s.d), token);
        CHECK_EQ(finish(s.d, token).result, -ECANCELED);
    }
    driver_free(s.d);
}

static void success_in_time_disarms_it(void)
{
    connection c = local_connection();
    char byte;
    uint64_t deadline_ns = in_ms(500);
    mr_token token = start(c.d, with_deadline(recv_request(c.handle, &byte, 1), deadline_ns));
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    /* The slot's next operation must not inherit it. */
    token = start(c.d, recv_request(c.handle, &byte, 1));
    while (clock_ns() < deadline_ns)
        run_for_ms(c.d, 50);
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

static void what_arrived_in_time_counts(void)
{
    connection c = tcp_connection();
    char byte;
    uint64_t deadline_ns = in_ms(300);
    mr_token token = start(c.d, with_deadline(recv_request(c.handle, &byte, 1), deadline_ns));
    poll_once(c.d);
    write_all(c.peer, "x", 1);
    while (clock_ns() <= deadline_ns) /* the owner was busy: both have happened when it polls again */
        sleep_ms(10);
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

/* More of them than one poll requests from the system. */
static void what_arrived_in_time_counts_in_a_crowd(void)
{
    enum { COUNT = 200 };
    driver *d = driver_new();
    int pairs[COUNT][2];
    char bytes[COUNT];
    mr_token tokens[COUNT];
    for (int i = 0; i < COUNT; i++) {
        local_pair(pairs[i]);
        tokens[i] = start(d, recv_request(adopt(d, pairs[i][0]), &bytes[i], 1));
    }
    poll_once(d);
    for (int i = 0; i < COUNT; i++)
        write_all(pairs[i][1], "x", 1);
    sleep_ms(20);
    for (int i = 0; i < COUNT; i++)
        mr_loop_update(driver_loop(d), tokens[i], 1);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(finish(d, tokens[i]).result, 1);
    driver_free(d);
}

/* An operation that waits for readability does not delay a receive that was submitted later. */
static void what_arrived_in_time_counts_behind_a_wait(void)
{
    enum { COUNT = 200 };
    driver *d = driver_new();
    int pairs[COUNT][2];
    char bytes[COUNT];
    mr_token waits[COUNT], tokens[COUNT];
    for (int i = 0; i < COUNT; i++) {
        local_pair(pairs[i]);
        mr_handle handle = adopt(d, pairs[i][0]);
        waits[i] = start(d, wait_request(MR_WAIT_READABLE, handle));
        tokens[i] = start(d, recv_request(handle, &bytes[i], 1));
    }
    poll_once(d);
    for (int i = 0; i < COUNT; i++)
        write_all(pairs[i][1], "x", 1);
    sleep_ms(20);
    for (int i = 0; i < COUNT; i++)
        mr_loop_update(driver_loop(d), tokens[i], 1);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(finish(d, tokens[i]).result, 1);
        mr_loop_cancel(driver_loop(d), waits[i]);
        finish(d, waits[i]);
    }
    driver_free(d);
}

/* The first operation that waits takes everything; the others time out nevertheless. */
static void what_arrived_in_time_is_taken_once(void)
{
    enum { COUNT = 3 };
    connection c = local_connection();
    char bytes[COUNT];
    mr_token tokens[COUNT];
    int received = 0;
    for (int i = 0; i < COUNT; i++)
        tokens[i] = start(c.d, recv_request(c.handle, &bytes[i], 1));
    poll_once(c.d);
    write_all(c.peer, "x", 1);
    for (int i = 0; i < COUNT; i++)
        mr_loop_update(driver_loop(c.d), tokens[i], 1);
    for (int i = 0; i < COUNT; i++) {
        int64_t result = finish(c.d, tokens[i]).result;
        CHECK(result == 1 || result == -ETIMEDOUT);
        received += result == 1;
    }
    CHECK_EQ(received + (int)drain(c.number), 1);
    driver_free(c.d);
}

static void it_can_be_moved(void)
{
    stuck s;
    make_stuck(&s);
    for (int i = 0; i < STUCK_SOCKET_KINDS; i++) {
        mr_token token = start(s.d, with_deadline(stuck_request(&s, i), in_ms(15)));
        uint64_t later_ns = in_ms(30);
        mr_loop_update(driver_loop(s.d), token, later_ns);
        CHECK_EQ(finish(s.d, token).result, -ETIMEDOUT);
        CHECK_GE(clock_ns(), later_ns);

        token = start(s.d, with_deadline(stuck_request(&s, i), in_ms(100000)));
        mr_loop_update(driver_loop(s.d), token, in_ms(2));
        CHECK_EQ(finish(s.d, token).result, -ETIMEDOUT);

        token = start(s.d, stuck_request(&s, i));
        mr_loop_update(driver_loop(s.d), token, 1);
        CHECK_EQ(finish(s.d, token).result, -ETIMEDOUT);
    }
    driver_free(s.d);
}

static void it_can_be_removed(void)
{
    stuck s;
    make_stuck(&s);
    mr_token token = start(s.d, with_deadline(stuck_request(&s, 0), in_ms(5)));
    mr_loop_update(driver_loop(s.d), token, MR_NO_DEADLINE);
    CHECK_STAYS_PENDING(s.d, token);
    mr_loop_cancel(driver_loop(s.d), token);
    CHECK_EQ(finish(s.d, token).result, -ECANCELED);
    driver_free(s.d);
}

/* The first reason to end stands, and there is one completion. */
static void deadline_and_cancellation_together(void)
{
    stuck s;
    make_stuck(&s);
    for (int i = 0; i < STUCK_SOCKET_KINDS; i++) {
        mr_token token = start(s.d, with_deadline(stuck_request(&s, i), in_ms(30)));
        mr_loop_cancel(driver_loop(s.d), token);
        sleep_ms(31);
        CHECK_EQ(finish(s.d, token).result, -ECANCELED);
    }
    driver_free(s.d);
}

static void many_deadlines_on_one_socket(void)
{
    enum { COUNT = 50 };
    stuck s;
    make_stuck(&s);
    mr_token tokens[COUNT];
    uint64_t base_ns = in_ms(5);
    for (uint64_t i = 0; i < COUNT; i++)
        tokens[i] = start(s.d, with_deadline(stuck_request(&s, 0), base_ns + i * NS_PER_MS));
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK_EQ(finish(s.d, tokens[i]).result, -ETIMEDOUT);
        CHECK_GE(clock_ns(), base_ns + i * NS_PER_MS);
    }
    driver_free(s.d);
}

static mr_request within(mr_request request, uint64_t length_ns)
{
    request.flags |= MR_WITHIN;
    request.deadline_ns = length_ns;
    return request;
}

static void a_length_of_time_begins_with_the_waiting(void)
{
    stuck s;
    make_stuck(&s);
    for (int i = 0; i < STUCK_SOCKET_KINDS; i++) {
        uint64_t earliest_ns = in_ms(5);
        CHECK_EQ(perform(s.d, within(stuck_request(&s, i), 5 * NS_PER_MS)).result, -ETIMEDOUT);
        CHECK_GE(clock_ns(), earliest_ns);
    }
    CHECK_EQ(perform(s.d, within(timeout_request(0), 1)).result, -EINVAL);
    driver_free(s.d);
}

static void a_length_of_time_can_be_moved_and_can_be_endless(void)
{
    stuck s;
    make_stuck(&s);
    mr_token token = start(s.d, within(stuck_request(&s, 0), UINT64_MAX - 1));
    CHECK_STAYS_PENDING(s.d, token);
    uint64_t deadline_ns = in_ms(5);
    mr_loop_update(driver_loop(s.d), token, deadline_ns);
    CHECK_EQ(finish(s.d, token).result, -ETIMEDOUT);
    CHECK_GE(clock_ns(), deadline_ns);
    token = start(s.d, within(stuck_request(&s, 0), MR_NO_DEADLINE));
    CHECK_STAYS_PENDING(s.d, token);
    mr_loop_cancel(driver_loop(s.d), token);
    CHECK_EQ(finish(s.d, token).result, -ECANCELED);
    driver_free(s.d);
}

/* -------------------------------------------------------------------------------------- deadlines of a handle --- */

static void set_deadline(driver *d, mr_handle handle, mr_direction direction, uint64_t deadline_ns)
{
    CHECK_EQ(mr_group_set_deadline(driver_group(d), driver_loop(d), handle, direction, deadline_ns), 0);
}

static void a_handle_can_have_one(void)
{
    connection c = local_connection();
    char bytes[2];
    uint64_t deadline_ns = in_ms(20);
    set_deadline(c.d, c.handle, MR_READING, deadline_ns);
    mr_token tokens[2];
    for (int i = 0; i < 2; i++)
        tokens[i] = start(c.d, recv_request(c.handle, &bytes[i], 1));
    for (int i = 0; i < 2; i++)
        CHECK_EQ(finish(c.d, tokens[i]).result, -ETIMEDOUT);
    CHECK_GE(clock_ns(), deadline_ns);
    CHECK_EQ(perform(c.d, recv_request(c.handle, bytes, 1)).result, -ETIMEDOUT); /* it has passed for later ones too */
    write_all(c.peer, "x", 1);
    CHECK_EQ(perform(c.d, recv_request(c.handle, bytes, 1)).result, 1); /* which need not wait */
    set_deadline(c.d, c.handle, MR_READING, MR_NO_DEADLINE);
    mr_token token = start(c.d, recv_request(c.handle, bytes, 1));
    CHECK_STAYS_PENDING(c.d, token);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

static void directions_have_their_own(void)
{
    connection c = tcp_connection();
    char byte = 0;
    fill(c.number);
    set_deadline(c.d, c.handle, MR_WRITING, in_ms(10));
    mr_token reading = start(c.d, recv_request(c.handle, &byte, 1));
    mr_token writing = start(c.d, send_request(c.handle, &byte, 1));
    CHECK_EQ(finish(c.d, writing).result, -ETIMEDOUT);
    CHECK_STAYS_PENDING(c.d, reading);
    set_deadline(c.d, c.handle, MR_READING, in_ms(5));
    CHECK_EQ(finish(c.d, reading).result, -ETIMEDOUT);
    driver_free(c.d);
}

static void the_earlier_one_counts(void)
{
    connection c = local_connection();
    char byte;
    set_deadline(c.d, c.handle, MR_READING, in_ms(3600000));
    uint64_t deadline_ns = in_ms(10);
    CHECK_EQ(perform(c.d, with_deadline(recv_request(c.handle, &byte, 1), deadline_ns)).result, -ETIMEDOUT);
    CHECK_GE(clock_ns(), deadline_ns);
    deadline_ns = in_ms(10);
    set_deadline(c.d, c.handle, MR_READING, deadline_ns);
    CHECK_EQ(perform(c.d, with_deadline(recv_request(c.handle, &byte, 1), in_ms(3600000))).result, -ETIMEDOUT);
    CHECK_GE(clock_ns(), deadline_ns);
    driver_free(c.d);
}

/* Pushed forward again and again, as by activity; then no more. */
static void it_can_be_pushed_while_operations_wait(void)
{
    connection c = local_connection();
    char byte;
    uint64_t deadline_ns = in_ms(200);
    set_deadline(c.d, c.handle, MR_READING, deadline_ns);
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    for (int i = 0; i < 4; i++) {
        run_for_ms(c.d, 80);
        if (clock_ns() >= deadline_ns) /* this machine was busy, and the operation is already ending */
            break;
        deadline_ns = in_ms(200);
        set_deadline(c.d, c.handle, MR_READING, deadline_ns);
    }
    CHECK_EQ(finish(c.d, token).result, -ETIMEDOUT);
    CHECK_GE(clock_ns(), deadline_ns);
    /* And back: none to near, and far to near. */
    set_deadline(c.d, c.handle, MR_READING, MR_NO_DEADLINE);
    token = start(c.d, recv_request(c.handle, &byte, 1));
    run_for_ms(c.d, 5);
    set_deadline(c.d, c.handle, MR_READING, in_ms(3600000));
    run_for_ms(c.d, 5);
    CHECK(!has_arrived(c.d, token));
    set_deadline(c.d, c.handle, MR_READING, in_ms(5));
    CHECK_EQ(finish(c.d, token).result, -ETIMEDOUT);
    driver_free(c.d);
}

/* The loop that has the operation learns of an earlier deadline from others, also while it sleeps. */
static void another_loop_can_set_it(void)
{
    driver *d = driver_new(), *other = driver_new_beside(d);
    int pair[2];
    char byte;
    local_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, recv_request(handle, &byte, 1));
    CHECK_STAYS_PENDING(d, token);
    set_deadline(other, handle, MR_READING, in_ms(5));
    CHECK_EQ(finish(d, token).result, -ETIMEDOUT);
    set_deadline(other, handle, MR_READING, MR_NO_DEADLINE);
    token = start(d, recv_request(handle, &byte, 1));
    while (!mr_loop_prepare_wait(driver_loop(d)))
        poll_once(d);
    CHECK_EQ(mr_group_set_deadline(driver_group(d), NULL, handle, MR_READING, in_ms(5)), 0);
    mr_loop_wait(driver_loop(d));
    CHECK_EQ(finish(d, token).result, -ETIMEDOUT);
    driver_free(other);
    driver_free(d);
}

static void it_ends_with_its_handle(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    local_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    set_deadline(d, handle, MR_READING, in_ms(30));
    mr_token token = start(d, recv_request(handle, &byte, 1));
    mr_completion closing;
    bool is_pending = submit(d, close_request(handle), &closing);
    CHECK_EQ(is_pending ? finish(d, closing.token).result : closing.result, 0);
    CHECK_EQ(finish(d, token).result, -EBADF);
    CHECK_EQ(mr_group_set_deadline(driver_group(d), driver_loop(d), handle, MR_READING, in_ms(1)), -EBADF);
    local_pair(pair);
    mr_handle next = adopt(d, pair[0]); /* likely the same number */
    token = start(d, recv_request(next, &byte, 1));
    run_for_ms(d, 60);
    CHECK(!has_arrived(d, token));
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 1);
    driver_free(d);
}

const conform_case deadline_cases[] = {
    CASE(every_kind_can_time_out),
    CASE(the_past_is_a_deadline),
    CASE(zero_is_none),
    CASE(the_far_future_is_fine),
    CASE(success_in_time_disarms_it),
    CASE(what_arrived_in_time_counts),
    CASE(what_arrived_in_time_counts_in_a_crowd),
    CASE(what_arrived_in_time_counts_behind_a_wait),
    CASE(what_arrived_in_time_is_taken_once),
    CASE(it_can_be_moved),
    CASE(it_can_be_removed),
    CASE(deadline_and_cancellation_together),
    CASE(a_length_of_time_begins_with_the_waiting),
    CASE(a_length_of_time_can_be_moved_and_can_be_endless),
    CASE(many_deadlines_on_one_socket),
    CASE(a_handle_can_have_one),
    CASE(directions_have_their_own),
    CASE(the_earlier_one_counts),
    CASE(it_can_be_pushed_while_operations_wait),
    CASE(another_loop_can_set_it),
    CASE(it_ends_with_its_handle),
    {0},
};
