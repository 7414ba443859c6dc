/* wake.c: sleeping and waking. */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>

static void *wake_after_20_ms(void *argument)
{
    sleep_ms(20);
    mr_loop_wake(argument);
    return NULL;
}

/* Polls everything, then calls mr_loop_prepare_wait. */
static void prepare(driver *d)
{
    do
        poll_once(d);
    while (!mr_loop_prepare_wait(driver_loop(d)));
}

static void a_sleeping_loop_wakes(void)
{
    driver *d = driver_new();
    pthread_t thread;
    prepare(d);
    uint64_t begin_ns = clock_ns();
    start_thread(&thread, wake_after_20_ms, driver_loop(d));
    mr_loop_wait(driver_loop(d));
    CHECK_GE(clock_ns() - begin_ns, 10 * NS_PER_MS);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(poll_once(d), 0);
    CHECK_GE(counters_of(d).wake_ups, 1);
    driver_free(d);
}

static void a_wake_before_the_wait_counts(void)
{
    driver *d = driver_new();
    for (int i = 0; i < 10; i++) {
        prepare(d);
        mr_loop_wake(driver_loop(d));
        NOTE_LINE();
        mr_loop_wait(driver_loop(d));
    }
    driver_free(d);
}

static void a_wake_before_the_announcement_counts(void)
{
    driver *d = driver_new();
    for (int i = 0; i < 10; i++) {
        prepare(d);
        poll_once(d);
        mr_loop_wake(driver_loop(d));
        NOTE_LINE();
        if (mr_loop_prepare_wait(driver_loop(d)))
            mr_loop_wait(driver_loop(d));
    }
    driver_free(d);
}

static void a_wake_is_spent_once(void)
{
    driver *d = driver_new();
    prepare(d);
    for (int i = 0; i < 100; i++)
        mr_loop_wake(driver_loop(d));
    mr_loop_wait(driver_loop(d));
    poll_once(d);
    CHECK_LE(run_for_ms(d, 100), 5);
    driver_free(d);
}

static void a_completion_ends_the_wait(void)
{
    connection c = local_connection();
    char byte;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    prepare(c.d);
    write_all(c.peer, "x", 1);
    NOTE_LINE();
    mr_loop_wait(driver_loop(c.d));
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

static void an_idle_loop_makes_no_calls(void)
{
    connection c = local_connection();
    char byte;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    run_for_ms(c.d, 10);
    uint64_t before = counters_of(c.d).system_calls;
    CHECK_LE(run_for_ms(c.d, 200), 6);
    CHECK_LE(counters_of(c.d).system_calls - before, 40);
    mr_loop_cancel(driver_loop(c.d), token);
    CHECK_EQ(finish(c.d, token).result, -ECANCELED);
    driver_free(c.d);
}

/* --------------------------------------------------- the owner's functions run on other threads while one waits --- */

typedef struct sleeper {
    mr_loop *loop;
    pthread_t thread;
    atomic_bool is_up;
} sleeper;

static void *sleep_once(void *argument)
{
    sleeper *s = argument;
    mr_loop_wait(s->loop);
    atomic_store(&s->is_up, true);
    return NULL;
}

static void put_to_sleep(sleeper *s, driver *d)
{
    *s = (sleeper){.loop = driver_loop(d)};
    prepare(d);
    start_thread(&s->thread, sleep_once, s);
    sleep_ms(20);
}

static void join_sleeper(sleeper *s)
{
    NOTE_LINE();
    CHECK_EQ(pthread_join(s->thread, NULL), 0);
    CHECK(atomic_load(&s->is_up));
}

static void what_is_submitted_meanwhile_ends_the_wait(void)
{
    connection c = local_connection();
    sleeper s;
    char byte;
    for (int i = 0; i < 3; i++) {
        put_to_sleep(&s, c.d);
        mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
        write_all(c.peer, "x", 1); /* nobody polls or wakes: the receive itself must end the sleep */
        join_sleeper(&s);
        CHECK_EQ(finish(c.d, token).result, 1);
    }
    driver_free(c.d);
}

static void bytes_that_come_later_end_the_wait_too(void)
{
    connection c = tcp_connection();
    sleeper s;
    char byte;
    put_to_sleep(&s, c.d);
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    sleep_ms(30);
    write_all(c.peer, "x", 1);
    join_sleeper(&s);
    CHECK_EQ(finish(c.d, token).result, 1);
    driver_free(c.d);
}

static void *write_after_20_ms(void *argument)
{
    sleep_ms(20);
    write_all(*(int *)argument, "x", 1);
    return NULL;
}

/* While the loop sleeps, a thread submits a receive and makes no system call afterwards; a byte arrives after 20 ms.
 * Returns how long it takes until the loop wakes. */
static uint64_t time_beside_busy_submitter_ns(connection *c)
{
    sleeper s;
    pthread_t writer;
    char byte;
    put_to_sleep(&s, c->d);
    start_thread(&writer, write_after_20_ms, &c->peer);
    mr_token token = start(c->d, recv_request(c->handle, &byte, 1));
    uint64_t begin_ns = clock_ns(), taken_ns = 0; /* the vDSO's clock, not a system call */
    while (!atomic_load(&s.is_up) && taken_ns < 2 * NS_PER_SECOND)
        taken_ns = clock_ns() - begin_ns;
    join_sleeper(&s);
    CHECK_EQ(pthread_join(writer, NULL), 0);
    CHECK_EQ(finish(c->d, token).result, 1);
    return taken_ns;
}

/* The kernel must not need the submitter to complete the operation. One success in ten tries is enough: this machine
 * may be busy. */
static void a_busy_submitter_does_not_delay_it(void)
{
    connection c = local_connection();
    for (int tries = 1; time_beside_busy_submitter_ns(&c) >= 200 * NS_PER_MS; tries++)
        CHECK_LT(tries, 10);
    driver_free(c.d);
}

static void an_earlier_deadline_meanwhile_shortens_the_wait(void)
{
    driver *d = driver_new();
    sleeper s;
    mr_token far = start(d, timeout_request(in_ms(3600000)));
    put_to_sleep(&s, d);
    mr_token near = start(d, timeout_request(in_ms(10)));
    join_sleeper(&s);
    CHECK_EQ(finish(d, near).result, 0);

    put_to_sleep(&s, d);
    mr_loop_update(driver_loop(d), far, in_ms(10));
    join_sleeper(&s);
    CHECK_EQ(finish(d, far).result, 0);
    driver_free(d);
}

static void a_cancellation_meanwhile_ends_the_wait(void)
{
    connection c = local_connection();
    sleeper s;
    char byte;
    for (int i = 0; i < 3; i++) {
        mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
        put_to_sleep(&s, c.d);
        mr_loop_cancel(driver_loop(c.d), token);
        join_sleeper(&s);
        CHECK_EQ(finish(c.d, token).result, -ECANCELED);
    }
    mr_token token = start(c.d, timeout_request(in_ms(3600000)));
    put_to_sleep(&s, c.d);
    mr_loop_cancel(driver_loop(c.d), token);
    join_sleeper(&s);
    CHECK_EQ(finish(c.d, token).result, -ECANCELED);
    driver_free(c.d);
}

static void a_close_meanwhile_ends_the_wait(void)
{
    connection c = local_connection();
    sleeper s;
    char byte;
    mr_completion closing;
    mr_token token = start(c.d, recv_request(c.handle, &byte, 1));
    put_to_sleep(&s, c.d);
    bool is_pending = submit(c.d, close_request(c.handle), &closing);
    join_sleeper(&s);
    CHECK_EQ(finish(c.d, token).result, -EBADF);
    CHECK_EQ(is_pending ? finish(c.d, closing.token).result : closing.result, 0);
    driver_free(c.d);
}

static void something_done_meanwhile_ends_the_wait(void)
{
    driver *d = driver_new();
    sleeper s;
    mr_token token;
    CHECK_EQ(mr_loop_reserve(driver_loop(d), MR_RECV, &token), 0);
    put_to_sleep(&s, d);
    expect(d, token, 0);
    mr_loop_start(driver_loop(d), token, &(mr_request){.kind = MR_KIND_COUNT});
    join_sleeper(&s);
    CHECK_EQ(finish(d, token).result, -EINVAL);
    driver_free(d);
}

/* More than the queues of the backend can hold, while nobody polls. */
static void a_crowd_submitted_meanwhile_is_served(void)
{
    enum { COUNT = 3000 };
    driver *d = driver_new();
    sleeper s;
    static int pairs[COUNT][2];
    static char bytes[COUNT];
    static mr_token tokens[COUNT];
    size_t count = pairs_possible(COUNT);
    put_to_sleep(&s, d);
    for (size_t i = 0; i < count; i++) {
        local_pair(pairs[i]);
        tokens[i] = start(d, recv_request(adopt(d, pairs[i][0]), &bytes[i], 1));
    }
    write_all(pairs[count - 1][1], "x", 1);
    join_sleeper(&s);
    CHECK_EQ(finish(d, tokens[count - 1]).result, 1);
    for (size_t i = 0; i < count - 1; i++)
        write_all(pairs[i][1], "x", 1);
    for (size_t i = 0; i < count - 1; i++)
        CHECK_EQ(finish(d, tokens[i]).result, 1);
    driver_free(d);
}

/* ------------------------------------------------------------------------------------------- no wake-up is lost --- */

typedef struct ping {
    mr_loop *loop;
    atomic_uint *requested;
    atomic_uint *served;
    unsigned rounds;
} ping;

static void *send_pings(void *argument)
{
    ping *p = argument;
    uint64_t random = 8;
    for (unsigned i = 1; i <= p->rounds; i++) {
        for (volatile uint32_t pause = harness_random(&random) % 2000; pause > 0; pause--)
            ;
        atomic_store(p->requested, i);
        mr_loop_wake(p->loop);
        while (atomic_load(p->served) < i)
            ;
    }
    return NULL;
}

static void no_wake_is_lost(void)
{
    driver *d = driver_new();
    pthread_t thread;
    atomic_uint requested = 0, served = 0;
    ping p = {driver_loop(d), &requested, &served, harness_rounds(20000)};
    start_thread(&thread, send_pings, &p);
    NOTE_LINE();
    while (atomic_load(&served) < p.rounds) {
        poll_once(d);
        unsigned now = atomic_load(&requested);
        if (now > atomic_load(&served))
            atomic_store(&served, now);
        else if (mr_loop_prepare_wait(driver_loop(d)))
            mr_loop_wait(driver_loop(d));
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    driver_free(d);
}

const conform_case wake_cases[] = {
    CASE(a_sleeping_loop_wakes),
    CASE(a_wake_before_the_wait_counts),
    CASE(a_wake_before_the_announcement_counts),
    CASE(a_wake_is_spent_once),
    CASE(a_completion_ends_the_wait),
    CASE(an_idle_loop_makes_no_calls),
    CASE(what_is_submitted_meanwhile_ends_the_wait),
    CASE(bytes_that_come_later_end_the_wait_too),
    CASE(a_busy_submitter_does_not_delay_it),
    CASE(an_earlier_deadline_meanwhile_shortens_the_wait),
    CASE(a_cancellation_meanwhile_ends_the_wait),
    CASE(a_close_meanwhile_ends_the_wait),
    CASE(something_done_meanwhile_ends_the_wait),
    CASE(a_crowd_submitted_meanwhile_is_served),
    CASE(no_wake_is_lost),
    {0},
};
