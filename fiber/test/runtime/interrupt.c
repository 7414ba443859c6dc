/* interrupt.c: ending the waits of another fiber. */
#include "runtime_test.h"

#include <pthread.h>

static mr_fiber *interrupted(void *(*run)(void *), void *argument, int error)
{
    mr_fiber *fiber = spawn(run, argument);
    CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
    mr_fiber_interrupt(fiber, error);
    return fiber;
}

static void *sleep_for_ever(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)mr_fiber_sleep_until(MR_NO_DEADLINE);
}

static void *sleep_long(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)mr_fiber_sleep(60000 * NS_PER_MS);
}

static void a_sleep(void)
{
    start_carriers(2);
    CHECK_EQ((intptr_t)join(interrupted(sleep_for_ever, NULL, EINTR)), -EINTR);
    CHECK_EQ((intptr_t)join(interrupted(sleep_long, NULL, ECANCELED)), -ECANCELED);
}

static void *receive(void *argument)
{
    int item;
    return (void *)(intptr_t)mr_channel_receive(argument, &item, MR_NO_DEADLINE);
}

static void a_receive_takes_nothing(void)
{
    mr_channel *channel;
    int item = 9;
    start_carriers(1);
    CHECK_EQ(mr_channel_create(&channel, sizeof(int), 1), 0);
    CHECK_EQ((intptr_t)join(interrupted(receive, channel, EINTR)), -EINTR);
    CHECK_EQ(mr_channel_try_send(channel, &item), 0);
    item = 0;
    CHECK_EQ(mr_channel_try_receive(channel, &item), 0);
    CHECK_EQ(item, 9);
    mr_channel_destroy(channel);
}

static void *join_argument(void *argument)
{
    return (void *)(intptr_t)mr_fiber_join(argument, NULL);
}

static void a_join_can_be_repeated(void)
{
    start_carriers(2);
    mr_fiber *sleeper = spawn(sleep_for_ever, NULL);
    CHECK_EQ((intptr_t)join(interrupted(join_argument, sleeper, EINTR)), -EINTR);
    mr_fiber_interrupt(sleeper, EINTR);
    CHECK_EQ((intptr_t)join(sleeper), -EINTR);
}

static void *be_interrupted_before(void *argument)
{
    atomic_int *stage = argument;
    atomic_store(stage, 1);
    while (atomic_load(stage) != 2)
        mr_fiber_yield();
    CHECK_EQ(mr_fiber_sleep_until(MR_NO_DEADLINE), -EINTR);
    CHECK_EQ(mr_fiber_sleep(NS_PER_MS), 0); /* once only */
    return NULL;
}

static void one_that_comes_before_the_wait(void)
{
    atomic_int stage = 0;
    start_carriers(1);
    mr_fiber *fiber = spawn(be_interrupted_before, &stage);
    while (atomic_load(&stage) != 1)
        mr_fiber_yield();
    mr_fiber_interrupt(fiber, EINTR);
    CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
    atomic_store(&stage, 2);
    join(fiber);
}

static void *lock_a_while(void *argument)
{
    return (void *)(intptr_t)mr_mutex_lock(argument, in_ms(60));
}

static void locks_are_not_interrupted(void)
{
    mr_mutex *mutex;
    start_carriers(1);
    CHECK_EQ(mr_mutex_create(&mutex), 0);
    CHECK_EQ(mr_mutex_lock(mutex, MR_NO_DEADLINE), 0);
    CHECK_EQ((intptr_t)join(interrupted(lock_a_while, mutex, EINTR)), -ETIMEDOUT);
    CHECK_EQ(mr_mutex_unlock(mutex), 0);
    mr_mutex_destroy(mutex);
}

static void *sleep_after_yields(void *argument)
{
    while (!atomic_load((atomic_bool *)argument))
        mr_fiber_yield();
    return (void *)(intptr_t)mr_fiber_sleep(1000 * NS_PER_MS);
}

/* The carrier has received both before the wait begins. */
static void the_first_of_two_counts(void)
{
    atomic_bool may_sleep = false;
    start_carriers(1);
    mr_fiber *fiber = spawn(sleep_after_yields, &may_sleep);
    mr_fiber_interrupt(fiber, EINTR);
    usleep(20000);
    mr_fiber_interrupt(fiber, ETIMEDOUT);
    usleep(20000);
    atomic_store(&may_sleep, true);
    CHECK_EQ((intptr_t)join(fiber), -EINTR);
}

/* Interruptions against wake-ups of the same waits, from several threads. */
static void *wait_often(void *argument)
{
    unsigned interruptions = 0;
    for (unsigned i = 0; i < harness_rounds(3000); i++) {
        int error = mr_event_wait(argument, in_ms(1));
        CHECK(error == 0 || error == -EINTR || error == -ETIMEDOUT);
        interruptions += error == -EINTR;
        if (!error)
            mr_event_reset(argument);
    }
    return (void *)(uintptr_t)interruptions;
}

static void against_wake_ups_and_deadlines(void)
{
    mr_event *event;
    start_carriers(2);
    CHECK_EQ(mr_event_create(&event), 0);
    mr_fiber *fibers[4];
    for (int i = 0; i < 4; i++)
        fibers[i] = spawn(wait_often, event);
    for (unsigned i = 0; i < harness_rounds(20000); i++) {
        if (i % 3)
            mr_event_set(event);
        else
            mr_fiber_interrupt(fibers[i % 4], EINTR);
    }
    for (int i = 0; i < 4; i++)
        join(fibers[i]);
    mr_event_destroy(event);
    CHECK_EQ(mr_carriers_stop(), 0);
}

static void *return_argument(void *argument)
{
    return argument;
}

/* A fiber that can still be joined may have ended, and its carrier with it. */
static void after_the_end(void)
{
    int value;
    start_carriers(2);
    mr_fiber *fiber = spawn(return_argument, &value);
    CHECK_EQ(mr_carriers_stop(), 0);
    mr_fiber_interrupt(fiber, EINTR);
    CHECK(join(fiber) == &value);
}

static atomic_bool must_stop;

static void *interrupt_again_and_again(void *argument)
{
    while (!atomic_load(&must_stop))
        mr_fiber_interrupt(argument, EINTR);
    return NULL;
}

static void *sleep_a_little(void *argument)
{
    mr_fiber_sleep(NS_PER_MS);
    return argument;
}

static void against_the_end(void)
{
    pthread_t thread;
    for (unsigned i = 0; i < harness_rounds(20); i++) {
        start_carriers(1);
        mr_fiber *fiber = spawn(sleep_a_little, NULL);
        atomic_store(&must_stop, false);
        CHECK_EQ(pthread_create(&thread, NULL, interrupt_again_and_again, fiber), 0);
        CHECK_EQ(mr_carriers_stop(), 0);
        atomic_store(&must_stop, true);
        pthread_join(thread, NULL);
        join(fiber);
    }
}

const fiber_case interrupt_cases[] = {
    CASE(after_the_end),
    CASE(against_the_end),
    CASE(a_sleep),
    CASE(a_receive_takes_nothing),
    CASE(a_join_can_be_repeated),
    CASE(one_that_comes_before_the_wait),
    CASE(locks_are_not_interrupted),
    CASE(the_first_of_two_counts),
    CASE(against_wake_ups_and_deadlines),
    {0},
};
