/* pressure.c: many operations at once, more than any queue of a backend holds. */
#include "conform.h"

typedef struct crowd {
    driver *d;
    size_t count;
    int (*pairs)[2];
    char *bytes;
    mr_handle *handles;
    mr_token *tokens;
} crowd;

static crowd new_crowd(size_t wanted)
{
    crowd c = {.d = driver_new(), .count = pairs_possible(wanted)};
    c.pairs = calloc(c.count, sizeof *c.pairs);
    c.bytes = calloc(c.count, 1);
    c.handles = calloc(c.count, sizeof *c.handles);
    c.tokens = calloc(c.count, sizeof *c.tokens);
    for (size_t i = 0; i < c.count; i++) {
        local_pair(c.pairs[i]);
        c.handles[i] = adopt(c.d, c.pairs[i][0]);
        c.tokens[i] = start(c.d, recv_request(c.handles[i], &c.bytes[i], 1));
    }
    return c;
}

static void free_crowd(crowd *c)
{
    driver_free(c->d);
    free(c->pairs);
    free(c->bytes);
    free(c->handles);
    free(c->tokens);
}

static void ten_thousand_receives(void)
{
    crowd c = new_crowd(10000);
    CHECK_STAYS_PENDING(c.d, c.tokens[0]);
    CHECK_EQ(counters_of(c.d).in_flight, c.count);
    for (size_t i = 0; i < c.count; i++) {
        char byte = (char)(i * 7);
        write_all(c.pairs[i][1], &byte, 1);
    }
    for (size_t i = 0; i < c.count; i++) {
        CHECK_EQ(finish(c.d, c.tokens[i]).result, 1);
        CHECK_EQ(c.bytes[i], (char)(i * 7));
    }
    free_crowd(&c);
}

static void ten_thousand_cancellations(void)
{
    crowd c = new_crowd(10000);
    poll_once(c.d);
    for (size_t i = 0; i < c.count; i++)
        mr_loop_cancel(driver_loop(c.d), c.tokens[i]);
    for (size_t i = 0; i < c.count; i++)
        CHECK_EQ(finish(c.d, c.tokens[i]).result, -ECANCELED);
    free_crowd(&c);
}

/* Without a poll in between: submissions and cancellations both wait for free queue entries. */
static void submissions_and_cancellations_in_one_round(void)
{
    crowd c = new_crowd(5000);
    uint64_t random = 4;
    for (size_t i = 0; i < c.count; i++) {
        if (harness_random(&random) % 2)
            write_all(c.pairs[i][1], "x", 1);
        mr_loop_cancel(driver_loop(c.d), c.tokens[i]);
    }
    for (size_t i = 0; i < c.count; i++) {
        mr_completion completion = finish(c.d, c.tokens[i]);
        CHECK(completion.result == -ECANCELED || completion.result == 1);
        if (completion.result == -ECANCELED)
            drain(c.pairs[i][0]);
    }
    free_crowd(&c);
}

static void ten_thousand_closes(void)
{
    crowd c = new_crowd(10000);
    poll_once(c.d);
    mr_token *closing = calloc(c.count, sizeof *closing);
    for (size_t i = 0; i < c.count; i++) {
        mr_completion completion;
        if (submit(c.d, close_request(c.handles[i]), &completion))
            closing[i] = completion.token;
        else
            CHECK_EQ(completion.result, 0);
    }
    for (size_t i = 0; i < c.count; i++) {
        CHECK_EQ(finish(c.d, c.tokens[i]).result, -EBADF);
        if (closing[i])
            CHECK_EQ(finish(c.d, closing[i]).result, 0);
        CHECK(!is_open(c.pairs[i][0]));
    }
    free(closing);
    free_crowd(&c);
}

static void ten_thousand_deadlines(void)
{
    crowd c = new_crowd(10000);
    uint64_t random = 6;
    for (size_t i = 0; i < c.count; i++)
        mr_loop_update(driver_loop(c.d), c.tokens[i], in_ms(harness_random(&random) % 100));
    for (size_t i = 0; i < c.count; i++)
        CHECK_EQ(finish(c.d, c.tokens[i]).result, -ETIMEDOUT);
    free_crowd(&c);
}

/* While nobody polls, more completions arrive than the kernel's queue can hold (8192 on io_uring). */
static void completions_beyond_the_queue_are_not_lost(void)
{
    enum { COUNT = 30000 };
    connection c = local_connection();
    static char bytes[COUNT];
    static mr_token tokens[COUNT];
    size_t count = harness_rounds(COUNT) < 10000 ? 10000 : harness_rounds(COUNT);
    for (size_t i = 0; i < count; i++)
        tokens[i] = start(c.d, recv_request(c.handle, &bytes[i], 1));
    poll_once(c.d);
    hang_up(c.peer); /* every one of them ends at once */
    sleep_ms(20);
    for (size_t i = 0; i < count; i++)
        CHECK_EQ(finish(c.d, tokens[i]).result, 0);
    driver_free(c.d);
}

static void a_small_capacity_loses_nothing(void)
{
    enum { COUNT = 100 };
    driver *d = driver_new();
    mr_token tokens[COUNT];
    bool seen[COUNT] = {false};
    mr_completion completion;
    for (int i = 0; i < COUNT; i++)
        tokens[i] = start(d, timeout_request(0));
    for (int taken = 0; taken < COUNT; taken++) {
        NOTE_LINE();
        while (mr_loop_poll(driver_loop(d), &completion, 1) == 0)
            ;
        for (int i = 0; i < COUNT; i++) {
            if (tokens[i] != completion.token)
                continue;
            CHECK(!seen[i]);
            seen[i] = true;
            expect_nothing(d, tokens[i]);
        }
        mr_loop_release(driver_loop(d), completion.token);
    }
    driver_free(d);
}

enum { READY_WAITS = 50, SMALL_CAPACITY = 4, TAG_TIMEOUT = 1 };

static void begin_ready_wait(const connection *c)
{
    mr_request request = wait_request(MR_WAIT_READABLE, c->handle);
    mr_token token;
    CHECK_EQ(mr_loop_reserve(driver_loop(c->d), MR_WAIT_READABLE, &token), 0);
    request.user_data = 0;
    mr_loop_start(driver_loop(c->d), token, &request);
}

/* Polls once, and submits operations that have ended again if `again`. True if the timeout has ended. */
static bool poll_ready_waits(const connection *c, bool begin_again)
{
    mr_completion completions[SMALL_CAPACITY];
    bool has_fired = false;
    int count = mr_loop_poll(driver_loop(c->d), completions, SMALL_CAPACITY);
    for (int i = 0; i < count; i++) {
        mr_loop_release(driver_loop(c->d), completions[i].token);
        has_fired |= completions[i].user_data == TAG_TIMEOUT;
        if (begin_again && completions[i].user_data != TAG_TIMEOUT)
            begin_ready_wait(c);
    }
    return has_fired;
}

/* At every poll more operations are ready than it can return. */
static void full_polls_do_not_keep_timers_waiting(void)
{
    connection c = local_connection();
    mr_request timeout = timeout_request(in_ms(1));
    mr_completion completion;
    timeout.user_data = TAG_TIMEOUT;
    CHECK_EQ(mr_loop_submit(driver_loop(c.d), &timeout, &completion), MR_PENDING);
    write_all(c.peer, "x", 1);
    for (int i = 0; i < READY_WAITS; i++)
        begin_ready_wait(&c);
    sleep_ms(5);
    bool has_fired = false;
    for (int round = 0; round < 100 && !has_fired; round++)
        has_fired = poll_ready_waits(&c, true);
    CHECK(has_fired);
    while (counters_of(c.d).in_flight)
        poll_ready_waits(&c, false);
    driver_free(c.d);
}

/* Completions that one poll cannot return must keep the owner from sleeping. */
static void what_was_not_taken_prevents_sleep(void)
{
    driver *d = driver_new();
    mr_completion completion;
    mr_token first = start(d, timeout_request(0)), second = start(d, timeout_request(0));
    while (mr_loop_poll(driver_loop(d), &completion, 1) == 0)
        ;
    CHECK_EQ(mr_loop_prepare_wait(driver_loop(d)), 0);
    mr_loop_release(driver_loop(d), completion.token);
    expect_nothing(d, completion.token);
    CHECK_EQ(finish(d, completion.token == first ? second : first).result, 0);
    driver_free(d);
}

/* Sustained traffic on many sockets, every byte checked. */
static void many_busy_sockets(void)
{
    enum { COUNT = 100 };
    driver *d = driver_new();
    int pairs[COUNT][2];
    mr_handle handles[COUNT];
    mr_token tokens[COUNT];
    unsigned char buffers[COUNT][256], chunk[256];
    uint64_t sent[COUNT] = {0}, received[COUNT] = {0}, random = 31;
    for (int i = 0; i < COUNT; i++) {
        tcp_pair(pairs[i]);
        handles[i] = adopt(d, pairs[i][0]);
        tokens[i] = start(d, recv_request(handles[i], buffers[i], sizeof buffers[i]));
    }
    for (unsigned round = 0; round < harness_rounds(20000); round++) {
        int i = (int)(harness_random(&random) % COUNT);
        size_t size = harness_random(&random) % sizeof chunk + 1;
        fill_pattern(chunk, sent[i], size);
        write_all(pairs[i][1], chunk, size);
        sent[i] += size;
        if (harness_random(&random) % 16)
            continue;
        poll_once(d);
        for (int j = 0; j < COUNT; j++) {
            while (tokens[j] && has_arrived(d, tokens[j])) {
                mr_completion completion = finish(d, tokens[j]);
                CHECK_GT(completion.result, 0);
                check_pattern(buffers[j], received[j], (size_t)completion.result);
                received[j] += (uint64_t)completion.result;
                tokens[j] = 0;
                while (!tokens[j]) {
                    if (submit(d, recv_request(handles[j], buffers[j], sizeof buffers[j]), &completion)) {
                        tokens[j] = completion.token;
                    } else {
                        check_pattern(buffers[j], received[j], (size_t)completion.result);
                        received[j] += (uint64_t)completion.result;
                    }
                }
            }
        }
    }
    for (int i = 0; i < COUNT; i++) {
        end_stream(pairs[i][1]);
        mr_completion completion = finish(d, tokens[i]);
        for (; completion.result > 0; completion = perform(d, recv_request(handles[i], buffers[i], 256))) {
            check_pattern(buffers[i], received[i], (size_t)completion.result);
            received[i] += (uint64_t)completion.result;
        }
        CHECK_EQ(completion.result, 0);
        CHECK_EQ(received[i], sent[i]);
    }
    driver_free(d);
}

const conform_case pressure_cases[] = {
    CASE(ten_thousand_receives),
    CASE(ten_thousand_cancellations),
    CASE(submissions_and_cancellations_in_one_round),
    CASE(ten_thousand_closes),
    CASE(ten_thousand_deadlines),
    CASE(completions_beyond_the_queue_are_not_lost),
    CASE(a_small_capacity_loses_nothing),
    CASE(full_polls_do_not_keep_timers_waiting),
    CASE(what_was_not_taken_prevents_sleep),
    CASE(many_busy_sockets),
    {0},
};
