/* clock.c: the one place that reads the time. */
#include "loop.h"

#include <time.h>

uint64_t mr_clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * MR_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t mr_clock_left_ns(uint64_t until_ns)
{
    uint64_t now_ns = mr_clock_now_ns();
    return until_ns > now_ns ? until_ns - now_ns : 0;
}
