/* sleep.c: the calls that wait for time. */
#include "shadow_test.h"

#include <time.h>

static uint64_t begin_ns;

static void must_have_taken_ms(unsigned ms)
{
    CHECK_GE(mr_clock_now_ns() - begin_ns, ms * NS_PER_MS);
    begin_ns = mr_clock_now_ns();
}

static void *sleep_in_every_way(void *argument)
{
    struct timespec duration = {.tv_nsec = 20000000}, until;
    begin_ns = mr_clock_now_ns();
    CHECK_EQ(nanosleep(&duration, NULL), 0);
    must_have_taken_ms(20);
    CHECK_EQ(usleep(20000), 0);
    must_have_taken_ms(20);
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL), 0);
    must_have_taken_ms(20);
    CHECK_EQ(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += until.tv_nsec >= 970000000;
    until.tv_nsec = (until.tv_nsec + 30000000) % 1000000000;
    CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL), 0);
    must_have_taken_ms(29);
    CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL), 0); /* past */
    CHECK_EQ(sleep(1), 0);
    must_have_taken_ms(1000);
    return argument;
}

static void every_way_leaves_the_carrier_free(void)
{
    must_leave_carrier_free(sleep_in_every_way, NULL, 50);
}

static void *sleep_wrongly(void *argument)
{
    struct timespec wrong = {.tv_nsec = 1000000000}, negative = {.tv_sec = -1};
    CHECK_EQ(nanosleep(&wrong, NULL), -1);
    CHECK_EQ(errno, EINVAL);
    errno = 0;
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &negative, NULL), EINVAL);
    CHECK_EQ(errno, 0);
    CHECK_EQ(clock_nanosleep(99, 0, &wrong, NULL), EINVAL);
    return argument;
}

static void invalid_times(void)
{
    on_fiber(sleep_wrongly, NULL);
}

static void *be_interrupted(void *argument)
{
    struct timespec duration = {.tv_sec = 10}, rest = {0};
    CHECK_EQ(nanosleep(&duration, &rest), -1);
    CHECK_EQ(errno, EINTR);
    CHECK_EQ(rest.tv_sec, 9);
    CHECK_EQ(sleep(10), 10);
    return argument;
}

static void interruption_tells_the_rest(void)
{
    mr_fiber *fiber = spawn(be_interrupted, NULL);
    CHECK_EQ(mr_fiber_sleep(20 * NS_PER_MS), 0);
    mr_fiber_interrupt(fiber, EINTR);
    CHECK_EQ(mr_fiber_sleep(20 * NS_PER_MS), 0);
    mr_fiber_interrupt(fiber, EINTR);
    join(fiber);
}

const shadow_case sleep_cases[] = {
    CASE(every_way_leaves_the_carrier_free),
    CASE(invalid_times),
    CASE(interruption_tells_the_rest),
    {0},
};
