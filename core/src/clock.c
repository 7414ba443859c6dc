/* clock.c: the one place that reads the time. */
#include "millrace.h"

#include <time.h>

uint64_t mr_clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
