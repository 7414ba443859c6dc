/* clock.c: reads the time. No other file of the core does. */
#include "clock.h"
#include "loop.h"

#ifdef _WIN32
#include <windows.h>

uint64_t mr_clock_now_ns(void)
{
    LARGE_INTEGER frequency, ticks;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&ticks);
    uint64_t per_second = (uint64_t)frequency.QuadPart, count = (uint64_t)ticks.QuadPart;
    /* Two steps, because the product of ticks and nanoseconds would overflow within hours. */
    return count / per_second * MR_NS_PER_S + count % per_second * MR_NS_PER_S / per_second;
}
#else
#include <time.h>

uint64_t mr_clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * MR_NS_PER_S + (uint64_t)now.tv_nsec;
}
#endif

uint64_t mr_clock_left_ns(uint64_t until_ns)
{
    uint64_t now_ns = mr_clock_now_ns();
    return until_ns > now_ns ? until_ns - now_ns : 0;
}
