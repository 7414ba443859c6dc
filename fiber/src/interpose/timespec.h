/*
 * timespec.h: converts between libc's times and deadlines on the core's clock.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_TIMESPEC_H
#define MILLRACE_FIBER_INTERPOSE_TIMESPEC_H

#include "millrace.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define MF_NS_PER_SECOND UINT64_C(1000000000)

static inline bool mf_is_valid_fraction(long ns)
{
    return ns >= 0 && ns < (long)MF_NS_PER_SECOND;
}

static inline bool mf_is_valid_time(const struct timespec *t)
{
    return t->tv_sec >= 0 && mf_is_valid_fraction(t->tv_nsec);
}

static inline struct timespec mf_timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / MF_NS_PER_SECOND), .tv_nsec = (long)(ns % MF_NS_PER_SECOND)};
}

/* Converts a valid timeout (NULL: none) to a deadline. One that is centuries away counts as none. */
static inline uint64_t mf_deadline_after(const struct timespec *timeout)
{
    if (!timeout || (uint64_t)timeout->tv_sec > UINT64_MAX / MF_NS_PER_SECOND / 2)
        return MR_NO_DEADLINE;
    return mr_clock_now_ns() + (uint64_t)timeout->tv_sec * MF_NS_PER_SECOND + (uint64_t)timeout->tv_nsec;
}

/* Converts a valid point in time on another clock to a deadline. A point before that clock's beginning has passed. */
static inline uint64_t mf_deadline_on(clockid_t clock, const struct timespec *until)
{
    const time_t longest_s = INT64_MAX / INT64_C(1000000000) - 1; /* 292 years: "never", and no product overflows */
    struct timespec now;
    if (until->tv_sec < 0)
        return 1;
    clock_gettime(clock, &now);
    if (until->tv_sec - now.tv_sec > longest_s)
        return UINT64_MAX;
    int64_t left_ns = (until->tv_sec - now.tv_sec) * INT64_C(1000000000) + (until->tv_nsec - now.tv_nsec);
    return left_ns > 0 ? mr_clock_now_ns() + (uint64_t)left_ns : 1;
}

static inline uint64_t mf_earlier(uint64_t deadline_ns, uint64_t other_ns)
{
    return deadline_ns != MR_NO_DEADLINE && deadline_ns < other_ns ? deadline_ns : other_ns;
}

static inline bool mf_has_passed(uint64_t deadline_ns)
{
    return deadline_ns != MR_NO_DEADLINE && mr_clock_now_ns() >= deadline_ns;
}

/* The time until a deadline; 0 when it has passed. */
static inline uint64_t mf_left_ns(uint64_t deadline_ns)
{
    uint64_t now_ns = mr_clock_now_ns();
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

#endif
