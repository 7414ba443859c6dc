/* semaphore.c: counting, bounded concurrency. */
#include "runtime_test.h"

#include <malloc.h>

static void counting(void)
{
    mr_semaphore *semaphore;
    CHECK_EQ(mr_semaphore_create(&semaphore, 2), 0);
    CHECK_EQ(mr_semaphore_try_wait(semaphore), 0);
    CHECK_EQ(mr_semaphore_wait(semaphore, MR_NO_DEADLINE), 0);
    CHECK_EQ(mr_semaphore_try_wait(semaphore), -EAGAIN);
    CHECK_EQ(mr_semaphore_wait(semaphore, in_ms(5)), -ETIMEDOUT);
    mr_semaphore_post(semaphore);
    CHECK_EQ(mr_semaphore_wait(semaphore, MR_NO_DEADLINE), 0);
    mr_semaphore_destroy(semaphore);
}

typedef struct gate {
    mr_semaphore *semaphore;
    atomic_int inside, most;
} gate;

static void *pass(void *argument)
{
    gate *g = argument;
    CHECK_EQ(mr_semaphore_wait(g->semaphore, far_deadline()), 0);
    int now = atomic_fetch_add(&g->inside, 1) + 1;
    for (int most = g->most; now > most && !atomic_compare_exchange_weak(&g->most, &most, now);)
        ;
    CHECK_EQ(mr_fiber_sleep(NS_PER_MS), 0);
    atomic_fetch_sub(&g->inside, 1);
    mr_semaphore_post(g->semaphore);
    return NULL;
}

static void bounded_concurrency(void)
{
    gate g = {0};
    mr_fiber *fibers[60];
    CHECK_EQ(mr_semaphore_create(&g.semaphore, 5), 0);
    start_carriers(2);
    for (int i = 0; i < 60; i++)
        fibers[i] = spawn(pass, &g);
    for (int i = 0; i < 60; i++)
        join(fibers[i]);
    CHECK_LE(g.most, 5);
    CHECK_GE(g.most, 2);
    mr_semaphore_destroy(g.semaphore);
}

static void *post(void *argument)
{
    mr_semaphore_post(argument);
    return NULL;
}

/* A thread that got the semaphore may free it at once, so a thread that has posted must not touch it any more. */
static void *destroy_after_wait(void *argument)
{
    for (int i = 0; i < 2000 / HARNESS_SLOWNESS; i++) {
        mr_semaphore *done;
        CHECK_EQ(mr_semaphore_create(&done, 0), 0);
        mr_fiber *poster = spawn(post, done);
        CHECK_EQ(mr_semaphore_wait(done, far_deadline()), 0);
        mr_semaphore_destroy(done);
        join(poster);
    }
    return argument;
}

static void the_waiter_may_destroy_it(void)
{
    start_carriers(2);
    on_fiber(destroy_after_wait, NULL);
}

static void *post_to_all(void *argument)
{
    mr_semaphore **pair = argument;
    while (mr_semaphore_wait(pair[0], MR_NO_DEADLINE) == 0)
        mr_semaphore_post(pair[1]);
    return NULL;
}

enum { EARLY_WAITS = 100000 };

static void *wait_often(void *argument)
{
    mr_semaphore **pair = argument;
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < EARLY_WAITS; i++) {
        mr_semaphore_post(pair[0]);
        CHECK_EQ(mr_semaphore_wait(pair[1], far_deadline()), 0);
    }
    /* A timer of 48 bytes for each of them would be 4.8 MB. (Sanitizers count nothing here, but other builds do.) */
    CHECK_LE(mallinfo2().uordblks, before + EARLY_WAITS * 8);
    return NULL;
}

static void waits_that_end_early_leave_no_timers(void)
{
    mr_semaphore *pair[2];
    CHECK_EQ(mr_semaphore_create(&pair[0], 0), 0);
    CHECK_EQ(mr_semaphore_create(&pair[1], 0), 0);
    start_carriers(1);
    mr_fiber *other = spawn(post_to_all, pair);
    on_fiber(wait_often, pair);
    mr_fiber_interrupt(other, EINTR);
    join(other);
    mr_semaphore_destroy(pair[0]);
    mr_semaphore_destroy(pair[1]);
}

const fiber_case semaphore_cases[] = {
    CASE(the_waiter_may_destroy_it),
    CASE(waits_that_end_early_leave_no_timers),
    CASE(counting),
    CASE(bounded_concurrency),
    {0},
};
