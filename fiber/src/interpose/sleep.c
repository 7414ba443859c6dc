/* sleep.c: the calls that wait for time to pass, and sched_yield. */
#include "blocking.h"
#include "libc.h"
#include "timespec.h"

MF_ALWAYS_LINKED(sleep);

static uint64_t to_ns(const struct timespec *t)
{
    uint64_t ns;
    if (__builtin_mul_overflow((uint64_t)t->tv_sec, MF_NS_PER_SECOND, &ns) ||
        __builtin_add_overflow(ns, (uint64_t)t->tv_nsec, &ns))
        return UINT64_MAX;
    return ns;
}

static uint64_t saturating_sum(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Returns 0, or a negative errno and the remaining time. */
static int sleep_for(uint64_t duration_ns, uint64_t *rest_ns)
{
    uint64_t deadline_ns = saturating_sum(mr_clock_now_ns(), duration_ns);
    int error = mr_fiber_sleep_until(deadline_ns);
    *rest_ns = error ? mf_left_ns(deadline_ns) : 0;
    return error;
}

static int sleep_for_timespec(const struct timespec *duration, struct timespec *rest)
{
    uint64_t rest_ns;
    if (!mf_is_valid_time(duration))
        return -EINVAL;
    int error = sleep_for(to_ns(duration), &rest_ns);
    if (error && rest)
        *rest = mf_timespec_of(rest_ns);
    return error;
}

int nanosleep(const struct timespec *duration, struct timespec *rest)
{
    if (!mf_current)
        return LIBC(nanosleep)(duration, rest);
    int error = sleep_for_timespec(duration, rest);
    return error ? mf_fail(error) : 0;
}

ALIAS(__nanosleep, nanosleep);

/* A clock of processor time does not advance while a fiber waits. These clocks are left to libc. */
static bool is_wall_clock(clockid_t clock)
{
    return clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME || clock == CLOCK_TAI;
}

/* The clock may be set during the sleep, so it is read again after each wait. */
static int sleep_until(clockid_t clock, const struct timespec *until)
{
    struct timespec now;
    if (!mf_is_valid_time(until))
        return -EINVAL;
    for (;;) {
        clock_gettime(clock, &now);
        if (to_ns(&now) >= to_ns(until))
            return 0;
        int error = mr_fiber_sleep_until(saturating_sum(mr_clock_now_ns(), to_ns(until) - to_ns(&now)));
        if (error)
            return error;
    }
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest)
{
    if (!mf_current || !is_wall_clock(clock))
        return LIBC(clock_nanosleep)(clock, flags, time, rest);
    mf_consume_budget();
    return -((flags & TIMER_ABSTIME) ? sleep_until(clock, time) : sleep_for_timespec(time, rest));
}

int usleep(useconds_t microseconds)
{
    uint64_t rest_ns;
    if (!mf_current)
        return LIBC(usleep)(microseconds);
    int error = sleep_for((uint64_t)microseconds * 1000, &rest_ns);
    return error ? mf_fail(error) : 0;
}

unsigned sleep(unsigned seconds)
{
    uint64_t rest_ns;
    if (!mf_current)
        return LIBC(sleep)(seconds);
    int error = sleep_for(seconds * MF_NS_PER_SECOND, &rest_ns);
    if (error)
        mf_fail(error);
    return (unsigned)(rest_ns / MF_NS_PER_SECOND); /* rounded down, as libc does */
}

/* Yields to other fibers: a loop around this call may wait for a fiber of the same carrier. */
int sched_yield(void)
{
    if (!mf_current)
        return LIBC(sched_yield)();
    mr_fiber_yield();
    return 0;
}
