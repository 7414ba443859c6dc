/* sleep.c: the calls that wait for time. */
#include "interpose_test.h"

#include <sys/select.h>
#include <time.h>

static const struct timespec pause_length = {.tv_nsec = PAUSE_MS * 1000000};

static void *by_nanosleep(void *argument)
{
    CHECK_EQ(nanosleep(&pause_length, NULL), 0);
    return argument;
}

static void *by_usleep(void *argument)
{
    CHECK_EQ(usleep(PAUSE_MS * 1000), 0);
    return argument;
}

static void *by_clock_nanosleep(void *argument)
{
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &pause_length, NULL), 0);
    return argument;
}

static void *until_a_moment(void *argument)
{
    struct timespec until;
    CHECK_EQ(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += until.tv_nsec >= 1000000000 - pause_length.tv_nsec;
    until.tv_nsec = (until.tv_nsec + pause_length.tv_nsec) % 1000000000;
    CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL), 0);
    CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL), 0); /* past */
    return argument;
}

static void *by_select(void *argument)
{
    struct timeval more_than_a_second = {.tv_usec = 1000000 + PAUSE_MS * 1000};
    CHECK_EQ(select(0, NULL, NULL, NULL, &more_than_a_second), 0);
    return argument;
}

static void *by_sleep(void *argument)
{
    CHECK_EQ(sleep(1), 0);
    return argument;
}

static void must_take_ms(unsigned ms, void *(*way)(void *))
{
    uint64_t begin_ns = mr_clock_now_ns();
    must_leave_carrier_free(way, NULL);
    CHECK_GE(mr_clock_now_ns() - begin_ns, ms * NS_PER_MS);
}

static void every_way_leaves_the_carrier_free(void)
{
    must_take_ms(PAUSE_MS, by_nanosleep);
    must_take_ms(PAUSE_MS, by_usleep);
    must_take_ms(PAUSE_MS, by_clock_nanosleep);
    must_take_ms(PAUSE_MS - 1, until_a_moment);
    must_take_ms(1000, by_sleep);
    must_take_ms(1000 + PAUSE_MS, by_select);
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
    errno = 0;
    CHECK_EQ(sleep(10), 9); /* begun seconds do not count */
    CHECK_EQ(errno, EINTR);
    return argument;
}

static void interruption_tells_the_rest(void)
{
    mr_fiber *fiber = spawn(be_interrupted, NULL);
    let_fibers_park();
    mr_fiber_interrupt(fiber, EINTR);
    let_fibers_park();
    mr_fiber_interrupt(fiber, EINTR);
    join(fiber);
}

const fiber_case sleep_cases[] = {
    CASE(every_way_leaves_the_carrier_free),
    CASE(invalid_times),
    CASE(interruption_tells_the_rest),
    {0},
};
