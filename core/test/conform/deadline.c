/* deadline.c: the deadline that every operation can carry. */
#include "conform.h"

typedef struct idle_sockets {
    driver *d;
    mr_handle handle;   /* nothing to receive, no room to send */
    mr_handle listener; /* nobody connects */
    char byte;
    struct iovec element;
} idle_sockets;

static idle_sockets *new_idle_sockets(void)
{
    static idle_sockets idle;
    struct sockaddr_in address;
    int pair[2];
    idle.d = driver_new();
    unix_pair(pair);
    idle.handle = adopt(idle.d, pair[0]);
    idle.listener = adopt(idle.d, tcp_listener(5, &address));
    idle.element = (struct iovec){&idle.byte, 1};
    fill(pair[0]);
    return &idle;
}

enum { KINDS = 8 };

static mr_request idle_request(idle_sockets *idle, int i)
{
    switch (i) {
    case 0:
        return recv_request(idle->handle, &idle->byte, 1);
    case 1:
        return send_request(idle->handle, &idle->byte, 1);
    case 2:
        return send_all_request(idle->handle, &idle->byte, 1);
    case 3:
        return vector_request(MR_RECV_VECTOR, idle->handle, &idle->element, 1);
    case 4:
        return vector_request(MR_SEND_VECTOR, idle->handle, &idle->element, 1);
    case 5:
        return accept_request(idle->listener, NULL);
    case 6:
        return wait_request(MR_WAIT_READABLE, idle->handle);
    default:
        return wait_request(MR_WAIT_WRITABLE, idle->handle);
    }
}

static void every_kind_can_time_out(void)
{
    idle_sockets *idle = new_idle_sockets();
    for (int i = 0; i < KINDS; i++) {
        uint64_t deadline_ns = in_ms(5);
        mr_completion completion = perform(idle->d, with_deadline(idle_request(idle, i), deadline_ns));
        CHECK_EQ(completion.result, -ETIMEDOUT);
        CHECK_EQ(completion.transferred, 0);
        CHECK_GE(mr_clock_now_ns(), deadline_ns);
    }
    driver_free(idle->d);
}

static void the_past_is_a_deadline(void)
{
    idle_sockets *idle = new_idle_sockets();
    for (int i = 0; i < KINDS; i++) {
        CHECK_EQ(perform(idle->d, with_deadline(idle_request(idle, i), 1)).result, -ETIMEDOUT);
        CHECK_EQ(perform(idle->d, with_deadline(idle_request(idle, i), mr_clock_now_ns())).result, -ETIMEDOUT);
    }
    driver_free(idle->d);
}

static void zero_is_none(void)
{
    idle_sockets *idle = new_idle_sockets();
    mr_token tokens[KINDS];
    for (int i = 0; i < KINDS; i++)
        tokens[i] = start(idle->d, with_deadline(idle_request(idle, i), MR_NO_DEADLINE));
    run_for_ms(idle->d, 20);
    for (int i = 0; i < KINDS; i++) {
        CHECK(!has_arrived(idle->d, tokens[i]));
        mr_loop_cancel(driver_loop(idle->d), tokens[i]);
        CHECK_EQ(finish(idle->d, tokens[i]).result, -ECANCELED);
    }
    driver_free(idle->d);
}

static void the_far_future_is_fine(void)
{
    idle_sockets *idle = new_idle_sockets();
    const uint64_t far[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2, in_ms(UINT64_C(100) * 365 * 86400 * 1000)};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        mr_token token = start(idle->d, with_deadline(idle_request(idle, 0), far[i]));
        CHECK_LE(run_for_ms(idle->d, 50), 8); /* and the loop sleeps */
        CHECK(!has_arrived(idle->d, token));
        mr_loop_cancel(driver_loop(idle->d), token);
        CHECK_EQ(finish(idle->d, token).result, -ECANCELED);
    }
    driver_free(idle->d);
}

static void success_in_time_disarms_it(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token token = start(d, with_deadline(recv_request(handle, &byte, 1), in_ms(30)));
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 1);
    /* The slot's next operation must not inherit it. */
    token = start(d, recv_request(handle, &byte, 1));
    run_for_ms(d, 60);
    CHECK(!has_arrived(d, token));
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 1);
    driver_free(d);
}

static void what_arrived_in_time_counts(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    tcp_pair(pair);
    mr_token token = start(d, with_deadline(recv_request(adopt(d, pair[0]), &byte, 1), in_ms(10)));
    poll_once(d);
    write_all(pair[1], "x", 1);
    sleep_ms(20); /* the owner was busy: both have happened when it polls again */
    CHECK_EQ(finish(d, token).result, 1);
    driver_free(d);
}

static void it_can_be_moved(void)
{
    idle_sockets *idle = new_idle_sockets();
    for (int i = 0; i < KINDS; i++) {
        mr_token token = start(idle->d, with_deadline(idle_request(idle, i), in_ms(15)));
        uint64_t later_ns = in_ms(30);
        mr_loop_update(driver_loop(idle->d), token, later_ns);
        CHECK_EQ(finish(idle->d, token).result, -ETIMEDOUT);
        CHECK_GE(mr_clock_now_ns(), later_ns);

        token = start(idle->d, with_deadline(idle_request(idle, i), in_ms(100000)));
        mr_loop_update(driver_loop(idle->d), token, in_ms(2));
        CHECK_EQ(finish(idle->d, token).result, -ETIMEDOUT);

        token = start(idle->d, idle_request(idle, i));
        mr_loop_update(driver_loop(idle->d), token, 1);
        CHECK_EQ(finish(idle->d, token).result, -ETIMEDOUT);
    }
    driver_free(idle->d);
}

static void it_can_be_removed(void)
{
    idle_sockets *idle = new_idle_sockets();
    mr_token token = start(idle->d, with_deadline(idle_request(idle, 0), in_ms(5)));
    mr_loop_update(driver_loop(idle->d), token, MR_NO_DEADLINE);
    CHECK_STAYS_PENDING(idle->d, token);
    mr_loop_cancel(driver_loop(idle->d), token);
    CHECK_EQ(finish(idle->d, token).result, -ECANCELED);
    driver_free(idle->d);
}

/* The first reason to end stands, and there is one completion. */
static void deadline_and_cancellation_together(void)
{
    idle_sockets *idle = new_idle_sockets();
    for (int i = 0; i < KINDS; i++) {
        mr_token token = start(idle->d, with_deadline(idle_request(idle, i), in_ms(30)));
        mr_loop_cancel(driver_loop(idle->d), token);
        sleep_ms(31);
        CHECK_EQ(finish(idle->d, token).result, -ECANCELED);
    }
    driver_free(idle->d);
}

static void many_deadlines_on_one_socket(void)
{
    enum { COUNT = 50 };
    idle_sockets *idle = new_idle_sockets();
    mr_token tokens[COUNT];
    uint64_t base_ns = in_ms(5);
    for (uint64_t i = 0; i < COUNT; i++)
        tokens[i] = start(idle->d, with_deadline(idle_request(idle, 0), base_ns + i * NS_PER_MS));
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK_EQ(finish(idle->d, tokens[i]).result, -ETIMEDOUT);
        CHECK_GE(mr_clock_now_ns(), base_ns + i * NS_PER_MS);
    }
    driver_free(idle->d);
}

static mr_request within(mr_request request, uint64_t length_ns)
{
    request.flags |= MR_WITHIN;
    request.deadline_ns = length_ns;
    return request;
}

static void a_length_of_time_begins_with_the_waiting(void)
{
    idle_sockets *idle = new_idle_sockets();
    for (int i = 0; i < KINDS; i++) {
        uint64_t earliest_ns = in_ms(5);
        CHECK_EQ(perform(idle->d, within(idle_request(idle, i), 5 * NS_PER_MS)).result, -ETIMEDOUT);
        CHECK_GE(mr_clock_now_ns(), earliest_ns);
    }
    CHECK_EQ(perform(idle->d, within(timeout_request(0), 1)).result, -EINVAL);
    driver_free(idle->d);
}

static void a_length_of_time_can_be_moved_and_can_be_endless(void)
{
    idle_sockets *idle = new_idle_sockets();
    mr_token token = start(idle->d, within(idle_request(idle, 0), UINT64_MAX - 1));
    CHECK_STAYS_PENDING(idle->d, token);
    uint64_t deadline_ns = in_ms(5);
    mr_loop_update(driver_loop(idle->d), token, deadline_ns);
    CHECK_EQ(finish(idle->d, token).result, -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    token = start(idle->d, within(idle_request(idle, 0), MR_NO_DEADLINE));
    CHECK_STAYS_PENDING(idle->d, token);
    mr_loop_cancel(driver_loop(idle->d), token);
    CHECK_EQ(finish(idle->d, token).result, -ECANCELED);
    driver_free(idle->d);
}

/* -------------------------------------------------------------------------------------- deadlines of a handle --- */

static void set_deadline(driver *d, mr_handle handle, mr_direction direction, uint64_t deadline_ns)
{
    CHECK_EQ(mr_group_set_deadline(driver_group(d), driver_loop(d), handle, direction, deadline_ns), 0);
}

static void a_handle_can_have_one(void)
{
    driver *d = driver_new();
    int pair[2];
    char bytes[2];
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    uint64_t deadline_ns = in_ms(20);
    set_deadline(d, handle, MR_READING, deadline_ns);
    mr_token tokens[2] = {start(d, recv_request(handle, &bytes[0], 1)), start(d, recv_request(handle, &bytes[1], 1))};
    for (int i = 0; i < 2; i++)
        CHECK_EQ(finish(d, tokens[i]).result, -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    CHECK_EQ(perform(d, recv_request(handle, bytes, 1)).result, -ETIMEDOUT); /* it has passed for later ones too */
    write_all(pair[1], "x", 1);
    CHECK_EQ(perform(d, recv_request(handle, bytes, 1)).result, 1); /* which need not wait */
    set_deadline(d, handle, MR_READING, MR_NO_DEADLINE);
    mr_token token = start(d, recv_request(handle, bytes, 1));
    CHECK_STAYS_PENDING(d, token);
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, token).result, 1);
    driver_free(d);
}

static void directions_have_their_own(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte = 0;
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    fill(pair[0]);
    set_deadline(d, handle, MR_WRITING, in_ms(10));
    mr_token reading = start(d, recv_request(handle, &byte, 1));
    mr_token writing = start(d, send_request(handle, &byte, 1));
    CHECK_EQ(finish(d, writing).result, -ETIMEDOUT);
    CHECK_STAYS_PENDING(d, reading);
    set_deadline(d, handle, MR_READING, in_ms(5));
    CHECK_EQ(finish(d, reading).result, -ETIMEDOUT);
    driver_free(d);
}

static void the_earlier_one_counts(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    set_deadline(d, handle, MR_READING, in_ms(3600000));
    uint64_t deadline_ns = in_ms(10);
    CHECK_EQ(perform(d, with_deadline(recv_request(handle, &byte, 1), deadline_ns)).result, -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    deadline_ns = in_ms(10);
    set_deadline(d, handle, MR_READING, deadline_ns);
    CHECK_EQ(perform(d, with_deadline(recv_request(handle, &byte, 1), in_ms(3600000))).result, -ETIMEDOUT);
    CHECK_GE(mr_clock_now_ns(), deadline_ns);
    driver_free(d);
}

/* Pushed forward again and again, as by activity; then no more. */
static void it_can_be_pushed_while_operations_wait(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    uint64_t deadline_ns = in_ms(25);
    set_deadline(d, handle, MR_READING, deadline_ns);
    mr_token token = start(d, recv_request(handle, &byte, 1));
    for (int i = 0; i < 5; i++) {
        run_for_ms(d, 10);
        if (has_arrived(d, token)) /* this machine was busy for a while */
            CHECK_GE(mr_clock_now_ns(), deadline_ns);
        deadline_ns = in_ms(25);
        set_deadline(d, handle, MR_READING, deadline_ns);
    }
    bool was_late = has_arrived(d, token);
    CHECK_EQ(finish(d, token).result, -ETIMEDOUT);
    CHECK(was_late || mr_clock_now_ns() >= deadline_ns);
    /* And back: none to near, and far to near. */
    set_deadline(d, handle, MR_READING, MR_NO_DEADLINE);
    token = start(d, recv_request(handle, &byte, 1));
    run_for_ms(d, 5);
    set_deadline(d, handle, MR_READING, in_ms(3600000));
    run_for_ms(d, 5);
    CHECK(!has_arrived(d, token));
    set_deadline(d, handle, MR_READING, in_ms(5));
    CHECK_EQ(finish(d, token).result, -ETIMEDOUT);
    driver_free(d);
}

/* The loop that has the operation learns of an earlier deadline from others, also while it sleeps. */
static void another_loop_can_set_it(void)
{
    driver *d = driver_new(), *other = driver_new_beside(d);
    int pair[2];
    char byte;
    unix_pair(pair);
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
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    set_deadline(d, handle, MR_READING, in_ms(30));
    mr_token token = start(d, recv_request(handle, &byte, 1));
    mr_completion closing;
    bool is_pending = submit(d, close_request(handle), &closing);
    CHECK_EQ(is_pending ? finish(d, closing.token).result : closing.result, 0);
    CHECK_EQ(finish(d, token).result, -EBADF);
    CHECK_EQ(mr_group_set_deadline(driver_group(d), driver_loop(d), handle, MR_READING, in_ms(1)), -EBADF);
    unix_pair(pair);
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
