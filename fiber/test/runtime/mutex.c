/* mutex.c: exclusion and ownership among fibers and threads. */
#include "runtime_test.h"

#include <pthread.h>

typedef struct shared {
    mr_mutex *mutex;
    unsigned rounds;
    unsigned counter; /* not atomic: the mutex protects it */
    bool inside;
} shared;

static void *count_up(void *argument)
{
    shared *s = argument;
    for (unsigned i = 0; i < s->rounds; i++) {
        CHECK_EQ(mr_mutex_lock(s->mutex, far_deadline()), 0);
        CHECK(!s->inside);
        s->inside = true;
        s->counter++;
        if (i % 16 == 0)
            mr_fiber_yield();
        s->inside = false;
        CHECK_EQ(mr_mutex_unlock(s->mutex), 0);
    }
    return NULL;
}

static void exclusion(void)
{
    shared s = {.rounds = harness_rounds(2000)};
    mr_fiber *fibers[6];
    pthread_t thread;
    CHECK_EQ(mr_mutex_create(&s.mutex), 0);
    start_carriers(3);
    for (int i = 0; i < 6; i++)
        fibers[i] = spawn(count_up, &s);
    CHECK_EQ(pthread_create(&thread, NULL, count_up, &s), 0);
    for (int i = 0; i < 6; i++)
        join(fibers[i]);
    pthread_join(thread, NULL);
    CHECK_EQ(s.counter, 7 * s.rounds);
    mr_mutex_destroy(s.mutex);
    CHECK_EQ(mr_carriers_stop(), 0);
}

static void *be_refused(void *argument)
{
    CHECK_EQ(mr_mutex_try_lock(argument), -EAGAIN);
    CHECK_EQ(mr_mutex_unlock(argument), -EPERM);
    CHECK_EQ(mr_mutex_lock(argument, in_ms(10)), -ETIMEDOUT);
    return NULL;
}

static void ownership(void)
{
    mr_mutex *mutex;
    CHECK_EQ(mr_mutex_create(&mutex), 0);
    CHECK_EQ(mr_mutex_unlock(mutex), -EPERM);
    CHECK_EQ(mr_mutex_lock(mutex, MR_NO_DEADLINE), 0);
    CHECK_EQ(mr_mutex_lock(mutex, MR_NO_DEADLINE), -EDEADLK);
    CHECK_EQ(mr_mutex_try_lock(mutex), -EAGAIN);
    on_fiber(be_refused, mutex);
    CHECK_EQ(mr_mutex_unlock(mutex), 0);
    CHECK_EQ(mr_mutex_try_lock(mutex), 0);
    CHECK_EQ(mr_mutex_unlock(mutex), 0);
    mr_mutex_destroy(mutex);
}

static void *hold_over_a_yield(void *argument)
{
    CHECK_EQ(mr_mutex_lock(argument, MR_NO_DEADLINE), 0);
    for (int i = 0; i < 5; i++)
        mr_fiber_yield();
    CHECK_EQ(mr_mutex_unlock(argument), 0);
    return NULL;
}

/* Two fibers of one carrier are two owners, though they share an OS thread. */
static void ownership_is_the_fibers(void)
{
    mr_mutex *mutex;
    CHECK_EQ(mr_mutex_create(&mutex), 0);
    start_carriers(1);
    mr_fiber *one = spawn(hold_over_a_yield, mutex), *other = spawn(hold_over_a_yield, mutex);
    join(one);
    join(other);
    mr_mutex_destroy(mutex);
}

const fiber_case mutex_cases[] = {
    CASE(exclusion),
    CASE(ownership),
    CASE(ownership_is_the_fibers),
    {0},
};
