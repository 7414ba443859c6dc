/* timeout.c: MR_TIMEOUT, and how timers and sleep go together. */
#include "conform.h"

#include <pthread.h>

static void it_is_never_early(void)
{
    driver *d = driver_new();
    uint64_t random = 21;
    for (int i = 0; i < 100; i++) {
        uint64_t deadline_ns = clock_ns() + harness_random(&random) % (4 * NS_PER_MS);
        CHECK_EQ(perform(d, timeout_request(deadline_ns)).result, 0);
        CHECK_GE(clock_ns(), deadline_ns);
    }
    driver_free(d);
}

static int compare_numbers(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The largest delay of the most punctual quarter of some timeouts. */
static uint64_t lateness_ns(driver *d)
{
    enum { COUNT = 51 };
    uint64_t late_ns[COUNT];
    for (int i = 0; i < COUNT; i++) {
        uint64_t deadline_ns = clock_ns() + 3 * NS_PER_MS;
        CHECK_EQ(perform(d, timeout_request(deadline_ns)).result, 0);
        late_ns[i] = clock_ns() - deadline_ns;
    }
    qsort(late_ns, COUNT, sizeof *late_ns, compare_numbers);
    return late_ns[COUNT / 4];
}

/* One success in ten tries, for a quarter of the timeouts, is enough: this machine may be busy. */
static void it_is_hardly_late(void)
{
    driver *d = driver_new();
    for (int tries = 1; lateness_ns(d) > (system_slack_ms() + 1) * NS_PER_MS; tries++)
        CHECK_LT(tries, 10);
    driver_free(d);
}

static void zero_and_the_past_are_due(void)
{
    driver *d = driver_new();
    CHECK_EQ(perform(d, timeout_request(0)).result, 0);
    CHECK_EQ(perform(d, timeout_request(1)).result, 0);
    CHECK_EQ(perform(d, timeout_request(clock_ns())).result, 0);
    driver_free(d);
}

static void earlier_ones_come_first(void)
{
    enum { COUNT = 20 };
    driver *d = driver_new();
    mr_token tokens[COUNT];
    uint64_t base_ns = in_ms(5);
    /* Armed in mixed order, 2 ms apart: 7 and COUNT have no common divisor. */
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t index = i * 7 % COUNT;
        tokens[index] = start(d, timeout_request(base_ns + index * 2 * NS_PER_MS));
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK_EQ(take(d, tokens[i]).result, 0);
        uint64_t now_ns = clock_ns();
        for (uint64_t j = i + 1; j < COUNT; j++)
            if (has_arrived(d, tokens[j]))
                CHECK_GE(now_ns, base_ns + j * 2 * NS_PER_MS);
        mr_loop_release(driver_loop(d), tokens[i]);
    }
    driver_free(d);
}

static void it_can_be_moved(void)
{
    driver *d = driver_new();
    mr_token token = start(d, timeout_request(in_ms(10)));
    uint64_t later_ns = in_ms(40);
    mr_loop_update(driver_loop(d), token, later_ns);
    CHECK_EQ(finish(d, token).result, 0);
    CHECK_GE(clock_ns(), later_ns);

    token = start(d, timeout_request(in_ms(1000000)));
    mr_loop_update(driver_loop(d), token, in_ms(2));
    CHECK_EQ(finish(d, token).result, 0);

    token = start(d, timeout_request(in_ms(1000000)));
    mr_loop_update(driver_loop(d), token, 0);
    CHECK_EQ(finish(d, token).result, 0);
    mr_loop_update(driver_loop(d), token, 0);
    driver_free(d);
}

static void it_can_be_discarded(void)
{
    driver *d = driver_new();
    mr_token token = start(d, timeout_request(in_ms(5)));
    CHECK_EQ(mr_loop_discard(driver_loop(d), token), 1);
    expect_nothing(d, token);
    CHECK_EQ(mr_loop_discard(driver_loop(d), token), 0);
    run_for_ms(d, 10);
    CHECK_EQ(counters_of(d).in_flight, 0);

    token = start(d, timeout_request(0));
    while (!has_arrived(d, token))
        poll_once(d);
    CHECK_EQ(mr_loop_discard(driver_loop(d), token), 0);
    CHECK_EQ(finish(d, token).result, 0);
    driver_free(d);
}

static void only_a_timeout_can_be_discarded(void)
{
    connection c = local_connection();
    char byte;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    CHECK_EQ(mr_loop_discard(driver_loop(c.d), token), 0);
    write_all(c.peer, "x", 1);
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

static void a_cancelled_one_completes_once(void)
{
    driver *d = driver_new();
    mr_token token = start(d, timeout_request(in_ms(2)));
    mr_loop_cancel(driver_loop(d), token);
    sleep_ms(4);
    CHECK_EQ(mr_loop_discard(driver_loop(d), token), 0); /* its completion is on the way */
    CHECK_EQ(finish(d, token).result, -ECANCELED);
    run_for_ms(d, 5);
    driver_free(d);
}

static void a_hundred_thousand(void)
{
    driver *d = driver_new();
    size_t count = harness_rounds(100000), due = 0;
    mr_token *tokens = calloc(count, sizeof *tokens);
    uint64_t *deadlines_ns = calloc(count, sizeof *deadlines_ns);
    uint64_t random = 1234, begin_ns = clock_ns();
    for (size_t i = 0; i < count; i++) {
        deadlines_ns[i] = begin_ns + harness_random(&random) % (300 * NS_PER_MS);
        tokens[i] = start(d, timeout_request(deadlines_ns[i]));
    }
    /* A third is moved, a third is discarded unless it is too late. */
    for (size_t i = 0; i < count; i++) {
        if (i % 3 == 1) {
            deadlines_ns[i] = begin_ns + harness_random(&random) % (400 * NS_PER_MS);
            mr_loop_update(driver_loop(d), tokens[i], deadlines_ns[i]);
        } else if (i % 3 == 2 && mr_loop_discard(driver_loop(d), tokens[i])) {
            expect_nothing(d, tokens[i]);
            tokens[i] = 0;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!tokens[i])
            continue;
        CHECK_EQ(finish(d, tokens[i]).result, 0);
        CHECK_GE(clock_ns(), deadlines_ns[i]);
        due++;
    }
    CHECK_GE(due, count / 2);
    CHECK_LT(clock_ns() - begin_ns, 15 * NS_PER_SECOND);
    free(tokens);
    free(deadlines_ns);
    driver_free(d);
}

static void far_ones_do_not_fire(void)
{
    enum { COUNT = 64 };
    driver *d = driver_new();
    mr_token tokens[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t distance_ns = UINT64_C(1) << i, now_ns = clock_ns();
        uint64_t deadline_ns = distance_ns > UINT64_MAX - now_ns ? UINT64_MAX - i : now_ns + distance_ns;
        deadline_ns = deadline_ns < in_ms(2000) ? in_ms(2000) : deadline_ns;
        tokens[i] = start(d, timeout_request(deadline_ns));
    }
    run_for_ms(d, 100);
    for (int i = 0; i < COUNT; i++) {
        CHECK(!has_arrived(d, tokens[i]));
        CHECK_EQ(mr_loop_discard(driver_loop(d), tokens[i]), 1);
        expect_nothing(d, tokens[i]);
    }
    driver_free(d);
}

/* Distant timers must not wake the loop again and again. */
static void sleep_is_not_interrupted_by_far_ones(void)
{
    driver *d = driver_new();
    uint64_t random = 3;
    mr_token tokens[200];
    for (int i = 0; i < 200; i++)
        tokens[i] = start(d, timeout_request(in_ms(60000 + harness_random(&random) % 100000000)));
    CHECK_LE(run_for_ms(d, 300), 12);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(mr_loop_discard(driver_loop(d), tokens[i]), 1);
        expect_nothing(d, tokens[i]);
    }
    driver_free(d);
}

static void sleep_ends_at_the_nearest(void)
{
    driver *d = driver_new();
    mr_token far = start(d, timeout_request(in_ms(3600000)));
    uint64_t deadline_ns = in_ms(30);
    mr_token near = start(d, timeout_request(deadline_ns));
    CHECK_EQ(finish(d, near).result, 0);
    CHECK_LT(clock_ns(), deadline_ns + 5 * NS_PER_SECOND);
    CHECK_EQ(mr_loop_discard(driver_loop(d), far), 1);
    expect_nothing(d, far);
    driver_free(d);
}

/* With nothing else to wait for: the latest possible deadline must not count as passed. */
static void the_end_of_time_lets_the_loop_sleep(void)
{
    const uint64_t ends_ns[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - (1u << 20)};
    driver *d = driver_new();
    for (size_t i = 0; i < sizeof ends_ns / sizeof *ends_ns; i++) {
        mr_token token = start(d, timeout_request(ends_ns[i]));
        int polls = 0;
        do {
            CHECK_LE(++polls, 20);
            poll_once(d);
        } while (!mr_loop_prepare_wait(driver_loop(d)));
        mr_loop_wake(driver_loop(d));
        mr_loop_wait(driver_loop(d));
        poll_once(d);
        CHECK_EQ(mr_loop_discard(driver_loop(d), token), 1);
        expect_nothing(d, token);
    }
    driver_free(d);
}

typedef struct remote_timeout {
    mr_loop *loop;
    mr_token token;
    mr_request request;
} remote_timeout;

static void *start_after_20_ms(void *argument)
{
    remote_timeout *remote = argument;
    sleep_ms(20);
    mr_loop_start_remote(remote->loop, remote->token, &remote->request);
    return NULL;
}

static void an_earlier_one_from_outside_shortens_sleep(void)
{
    driver *d = driver_new();
    pthread_t thread;
    uint64_t begin_ns = clock_ns(), deadline_ns = in_ms(40);
    mr_token far = start(d, timeout_request(in_ms(3600000)));
    remote_timeout remote = {.loop = driver_loop(d), .request = timeout_request(deadline_ns)};
    CHECK_EQ(mr_loop_reserve(driver_loop(d), MR_TIMEOUT, &remote.token), 0);
    expect(d, remote.token, remote.request.user_data);
    start_thread(&thread, start_after_20_ms, &remote);
    CHECK_EQ(finish(d, remote.token).result, 0);
    CHECK_GE(clock_ns(), deadline_ns);
    CHECK_LT(clock_ns() - begin_ns, 5 * NS_PER_SECOND);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(mr_loop_discard(driver_loop(d), far), 1);
    expect_nothing(d, far);
    driver_free(d);
}

static void a_slow_owner_finds_all_that_are_due(void)
{
    enum { COUNT = 1000 };
    driver *d = driver_new();
    mr_token tokens[COUNT];
    uint64_t base_ns = clock_ns();
    for (uint64_t i = 0; i < COUNT; i++)
        tokens[i] = start(d, timeout_request(base_ns + i * NS_PER_MS / 50));
    sleep_ms(30);
    int taken = 0, more;
    do
        taken += more = poll_once(d);
    while (more > 0 || !mr_loop_prepare_wait(driver_loop(d))); /* a poll may only have moved timers in the wheel */
    CHECK_EQ(taken, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(finish(d, tokens[i]).result, 0);
    driver_free(d);
}

const conform_case timeout_cases[] = {
    CASE(it_is_never_early),
    CASE(it_is_hardly_late),
    CASE(zero_and_the_past_are_due),
    CASE(earlier_ones_come_first),
    CASE(it_can_be_moved),
    CASE(it_can_be_discarded),
    CASE(only_a_timeout_can_be_discarded),
    CASE(a_cancelled_one_completes_once),
    CASE(a_hundred_thousand),
    CASE(far_ones_do_not_fire),
    CASE(sleep_is_not_interrupted_by_far_ones),
    CASE(the_end_of_time_lets_the_loop_sleep),
    CASE(sleep_ends_at_the_nearest),
    CASE(an_earlier_one_from_outside_shortens_sleep),
    CASE(a_slow_owner_finds_all_that_are_due),
    {0},
};
