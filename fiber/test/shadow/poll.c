/* poll.c: poll and select where their arguments are unusual. */
#include "shadow_test.h"

#include <limits.h>
#include <sys/select.h>

static void *select_with_the_longest_timeout(void *argument)
{
    const pair *p = argument;
    struct timeval timeout = {.tv_sec = LONG_MAX};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p->ends[0], &set);
    CHECK_EQ(select(p->ends[0] + 1, &set, NULL, NULL, &timeout), 1);
    CHECK_GT(timeout.tv_sec, 0);
    return NULL;
}

/* What is left of it is no time at all for those who select with it again. */
static void a_timeout_without_end(void)
{
    pair p = new_pair();
    MUST(write(p.ends[1], "x", 1));
    on_fiber(select_with_the_longest_timeout, &p);
    close_pair(&p);
}

const fiber_case poll_cases[] = {
    CASE(a_timeout_without_end),
    {0},
};
