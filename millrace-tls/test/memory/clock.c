/* clock.c - replaces libc's clock functions, so that a test can move the time forward, also for OpenSSL. Must not know:
 * sockets. */
#include "clock.h"

#include <sys/time.h>
#include <time.h>

static time_t passed;

void advance_clock(long seconds)
{
    passed += seconds;
}

static struct timespec now(void)
{
    struct timespec present;
    (void)clock_gettime(CLOCK_REALTIME, &present);
    present.tv_sec += passed;
    return present;
}

time_t time(time_t *to)
{
    time_t seconds = now().tv_sec;
    if (to)
        *to = seconds;
    return seconds;
}

/* OpenSSL 3.2 and later call this for the ages of sessions. */
int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
    (void)zone;
    struct timespec present = now();
    *to = (struct timeval){.tv_sec = present.tv_sec, .tv_usec = present.tv_nsec / 1000};
    return 0;
}
