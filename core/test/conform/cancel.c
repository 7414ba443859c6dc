/* cancel.c: mr_loop_cancel on every kind of operation, and its races. */
#include "conform.h"


/* Sockets on which every kind of operation has to wait. */
typedef struct stuck {
    driver *d;
    int pair[2];
    mr_handle handle;   /* nothing to receive, no room to send */
    mr_handle listener; /* nobody connects */
    char byte;
    struct iovec element;
} stuck;

static void make_stuck(stuck *s)
{
    struct sockaddr_in address;
    *s = (stuck){.d = driver_new()};
    unix_pair(s->pair);
    s->handle = adopt(s->d, s->pair[0]);
    s->listener = adopt(s->d, tcp_listener(5, &address));
    s->element = (struct iovec){&s->byte, 1};
    fill(s->pair[0]);
}

enum { STUCK_KINDS = 9 };

static mr_request stuck_request(stuck *s, int i)
{
    switch (i) {
    case 0:
        return recv_request(s->handle, &s->byte, 1);
    case 1:
        return send_request(s->handle, &s->byte, 1);
    case 2:
        return send_all_request(s->handle, &s->byte, 1);
    case 3:
        return vector_request(MR_RECV_VECTOR, s->handle, &s->element, 1);
    case 4:
        return vector_request(MR_SEND_VECTOR, s->handle, &s->element, 1);
    case 5:
        return accept_request(s->listener, NULL);
    case 6:
        return wait_request(MR_WAIT_READABLE, s->handle);
    case 7:
        return wait_request(MR_WAIT_WRITABLE, s->handle);
    default:
        return timeout_request(in_ms(3600 * 1000));
    }
}

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
    for (int i = 0; i < STUCK_KINDS; i++) {
        mr_loop_cancel(driver_loop(s.d), tokens[i]);
        CHECK_EQ(finish(s.d, tokens[i]).result, -ECANCELED);
        run_for_ms(s.d, 2);
        for (int j = i + 1; j < STUCK_KINDS; j++)
            CHECK(!has_arrived(s.d, tokens[j]));
    }
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
    driver *d = driver_new();
    int pair[2];
    char byte;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token cancelled = start(d, recv_request(handle, &byte, 1)), other = start(d, recv_request(handle, &byte, 1));
    run_for_ms(d, 1);
    mr_loop_cancel(driver_loop(d), cancelled);
    CHECK_EQ(perform(d, close_request(handle)).result, 0);
    CHECK_EQ(finish(d, cancelled).result, -ECANCELED);
    CHECK_EQ(finish(d, other).result, -EBADF);
    driver_free(d);
}

/* Ended, but not polled yet: cancelling is too late, the result stands. */
static void too_late_changes_nothing(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    unix_pair(pair);
    mr_token token = start(d, recv_request(adopt(d, pair[0]), &byte, 1));
    write_all(pair[1], "x", 1);
    while (!has_arrived(d, token))
        poll_once(d);
    mr_loop_cancel(driver_loop(d), token);
    CHECK_EQ(finish(d, token).result, 1);
    mr_loop_cancel(driver_loop(d), token);
    run_for_ms(d, 1);
    driver_free(d);
}

/* A token of an earlier life of a slot must not end the operation that has the slot now. */
static void a_stale_token_is_ignored(void)
{
    driver *d = driver_new();
    int pair[2];
    char byte;
    unix_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    mr_token first = start(d, recv_request(handle, &byte, 1));
    write_all(pair[1], "x", 1);
    CHECK_EQ(finish(d, first).result, 1);
    mr_token second = start(d, recv_request(handle, &byte, 1));
    CHECK_EQ(mr_token_slot(first), mr_token_slot(second));
    CHECK_NE(first, second);
    mr_loop_cancel(driver_loop(d), first);
    mr_loop_update(driver_loop(d), first, 1);
    CHECK_EQ(mr_loop_discard(driver_loop(d), first), 0);
    mr_loop_release(driver_loop(d), first);
    CHECK_STAYS_PENDING(d, second);
    write_all(pair[1], "y", 1);
    CHECK_EQ(finish(d, second).result, 1);
    driver_free(d);
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
    driver *d = driver_new();
    int pair[2];
    unsigned cancelled = 0, rounds = harness_rounds(2000);
    uint64_t random = 42;
    tcp_pair(pair);
    mr_handle handle = adopt(d, pair[0]);
    for (unsigned round = 0; round < rounds; round++) {
        char byte = 0, sent = (char)round;
        mr_token token = start(d, recv_request(handle, &byte, 1));
        bool cancel_first = harness_random(&random) % 2;
        if (harness_random(&random) % 2)
            poll_once(d);
        if (cancel_first)
            mr_loop_cancel(driver_loop(d), token);
        if (harness_random(&random) % 2)
            poll_once(d);
        write_all(pair[1], &sent, 1);
        if (harness_random(&random) % 2)
            poll_once(d);
        mr_loop_cancel(driver_loop(d), token);
        mr_completion completion = finish(d, token);
        if (completion.result == -ECANCELED) {
            cancelled++;
            CHECK_EQ(perform(d, recv_request(handle, &byte, 1)).result, 1);
        } else {
            CHECK_EQ(completion.result, 1);
        }
        CHECK_EQ(byte, sent);
    }
    CHECK_GT(cancelled, 0);
    driver_free(d);
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
        int client = MUST(socket(AF_INET, SOCK_STREAM, 0));
        MUST(connect(client, (struct sockaddr *)&address, sizeof address));
        mr_loop_cancel(driver_loop(d), token);
        mr_completion completion = finish(d, token);
        if (completion.result == -ECANCELED)
            completion = perform(d, accept_request(listener, NULL));
        CHECK_GE(completion.result, 0);
        reset(client);
        close((int)completion.result);
    }
    CHECK_EQ(open_descriptors(), descriptors);
    driver_free(d);
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
    CASE(twice_is_once),
    CASE(a_close_after_it_changes_nothing),
    CASE(too_late_changes_nothing),
    CASE(a_stale_token_is_ignored),
    CASE(nonsense_tokens_are_ignored),
    CASE(the_result_and_the_bytes_agree),
    CASE(no_connection_is_lost),
    CASE(memory_does_not_grow_by_cancelling),
    {0},
};
