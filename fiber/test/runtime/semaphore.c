/* semaphore.c: counting, bounded concurrency. */
#include "runtime_test.h"

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

const fiber_case semaphore_cases[] = {
    CASE(counting),
    CASE(bounded_concurrency),
    {0},
};
