/*
 * timers.c: measures the core's timers from C. Its last line is one number, in seconds.
 *
 *   timers arm N        arms and cancels a timer, N times: the total time
 *   timers rearm N M    moves each of N live timers to 10 s from now, M times: the total time
 *   timers live N       N timers that fire at random within 10 s: the CPU time of the longest poll
 *   timers still N      polls without timers, for N seconds: the CPU time of the longest poll, caused by the machine
 *
 * `arm` and `rearm` do not read the clock for each timer.
 */
#include "millrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

enum { BATCH = 256 };

static mr_loop *loop;

static _Noreturn void stop(const char *problem)
{
    fprintf(stderr, "timers: %s\n", problem);
    exit(1);
}

static mr_token arm(uint64_t deadline_ns)
{
    mr_request request = {.kind = MR_TIMEOUT, .deadline_ns = deadline_ns};
    mr_completion completion;
    if (mr_loop_submit(loop, &request, &completion) != MR_PENDING)
        stop("cannot arm a timer: no memory");
    return completion.token;
}

static mr_token *arm_many(size_t count, uint64_t first_ns, uint64_t spread_ns)
{
    mr_token *tokens = malloc(count * sizeof *tokens);
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; tokens && i < count; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        tokens[i] = arm(first_ns + random % spread_ns);
    }
    return tokens;
}

static double arm_and_cancel(size_t count)
{
    uint64_t begin_ns = mr_clock_now_ns();
    for (size_t i = 0; i < count; i++) {
        mr_token token = arm(begin_ns + 10 * NS_PER_S + i);
        if (!mr_loop_discard(loop, token))
            stop("a timer that should be armed does not exist");
        mr_loop_release(loop, token);
    }
    return (double)(mr_clock_now_ns() - begin_ns) / NS_PER_S;
}

static double rearm(size_t count, size_t rounds)
{
    mr_token *tokens = arm_many(count, mr_clock_now_ns() + 10 * NS_PER_S, 1);
    uint64_t begin_ns = mr_clock_now_ns();
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++)
            mr_loop_update(loop, tokens[i], begin_ns + 10 * NS_PER_S + round * count + i);
    double seconds = (double)(mr_clock_now_ns() - begin_ns) / NS_PER_S;
    free(tokens);
    return seconds;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static int timed_poll(mr_completion *completions, uint64_t *longest_ns)
{
    uint64_t begin_ns = cpu_ns();
    int polled = mr_loop_poll(loop, completions, BATCH);
    uint64_t took_ns = cpu_ns() - begin_ns;
    *longest_ns = took_ns > *longest_ns ? took_ns : *longest_ns;
    return polled;
}

static double longest_poll(size_t count)
{
    /* No timer may fire while the others are armed, which takes a while. */
    free(arm_many(count, mr_clock_now_ns() + 5 * NS_PER_S, 10 * NS_PER_S));
    uint64_t longest_ns = 0;
    for (size_t left = count; left;) {
        mr_completion completions[BATCH];
        int polled = timed_poll(completions, &longest_ns);
        for (int i = 0; i < polled; i++)
            mr_loop_release(loop, completions[i].token);
        left -= (size_t)polled;
        if (polled == 0 && mr_loop_prepare_wait(loop))
            mr_loop_wait(loop);
    }
    return (double)longest_ns / NS_PER_S;
}

static double longest_empty_poll(size_t seconds)
{
    mr_completion completions[BATCH];
    uint64_t longest_ns = 0, end_ns = mr_clock_now_ns() + seconds * NS_PER_S;
    while (mr_clock_now_ns() < end_ns)
        timed_poll(completions, &longest_ns);
    return (double)longest_ns / NS_PER_S;
}

int main(int argc, char **argv)
{
    mr_group *group;
    size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0, rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    if (count == 0)
        stop("usage: timers arm N | rearm N M | live N | still N");
    if (mr_group_create(MR_BACKEND_AUTO, &group) || mr_loop_create(group, &loop))
        stop("no loop");
    double seconds = strcmp(argv[1], "arm") == 0     ? arm_and_cancel(count)
                     : strcmp(argv[1], "rearm") == 0 ? rearm(count, rounds)
                     : strcmp(argv[1], "live") == 0  ? longest_poll(count)
                     : strcmp(argv[1], "still") == 0 ? longest_empty_poll(count)
                                                     : -1;
    if (seconds < 0)
        stop("unknown work");
    printf("%.9f\n", seconds);
    return 0;
}
