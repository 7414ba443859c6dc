/*
 * calls.c: runs many callers at the same time, to measure blocking calls on them and the cost of switching between and
 * starting them. If FIBER is defined, the callers are Millrace's fibers; otherwise they are POSIX threads.
 *
 *   calls sleep|hold|ask CALLERS CALLS  each caller makes CALLS blocking calls of call.h (sleep: 1 ms, hold: 500 ms)
 *   calls switch CALLERS TURNS          the callers wake each other in turn, TURNS times each
 *   calls spawn 1 TIMES                 a caller starts another one that does nothing, and waits for its end
 */
#define _GNU_SOURCE
#include "call.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FIBER
#include "millrace_fiber.h"
typedef mr_fiber *caller;
#define START(caller, body, argument) mr_fiber_spawn(caller, NULL, body, argument)
#define JOIN(caller)                  mr_fiber_join(caller, NULL)
#define YIELD()                       mr_fiber_yield()
#else
typedef pthread_t caller;
#define START(caller, body, argument) pthread_create(caller, NULL, body, argument)
#define JOIN(caller)                  pthread_join(caller, NULL)
#define YIELD()                       sched_yield()
#endif

static long caller_count, times;
static int *descriptors; /* for call_ask: one socket per caller */
static atomic_long turn;

static void check(int error, const char *attempted)
{
    if (error) {
        fprintf(stderr, "%s: %s\n", attempted, strerror(abs(error)));
        exit(1);
    }
}

static void *sleep_often(void *argument)
{
    for (long i = 0; i < times; i++)
        call_sleep(1);
    return argument;
}

static void *sleep_long(void *argument)
{
    for (long i = 0; i < times; i++)
        call_sleep(500);
    return argument;
}

static void *ask_often(void *argument)
{
    for (long i = 0; i < times; i++)
        call_ask(descriptors[(intptr_t)argument]);
    return argument;
}

static void *take_turns(void *argument)
{
    long own = (long)(intptr_t)argument;
    for (long i = 0; i < times; i++) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != own)
            YIELD();
        atomic_store_explicit(&turn, (own + 1) % caller_count, memory_order_release);
    }
    return argument;
}

static void *do_nothing(void *argument)
{
    return argument;
}

static void *spawn_often(void *argument)
{
    for (long i = 0; i < times; i++) {
        caller other;
        check(START(&other, do_nothing, NULL), "starting a caller");
        check(JOIN(other), "joining a caller");
    }
    return argument;
}

static void open_all(void)
{
    descriptors = calloc((size_t)caller_count, sizeof *descriptors);
    check(descriptors ? 0 : ENOMEM, "calloc");
    for (long i = 0; i < caller_count; i++)
        descriptors[i] = call_open();
}

static void run(void *(*body)(void *))
{
    caller *callers = calloc((size_t)caller_count, sizeof *callers);
    check(callers ? 0 : ENOMEM, "calloc");
    call_measure_begin();
    for (long i = 0; i < caller_count; i++)
        check(START(&callers[i], body, (void *)(intptr_t)i), "starting a caller");
    for (long i = 0; i < caller_count; i++)
        check(JOIN(callers[i]), "joining a caller");
    call_measure_end();
    free(callers);
}

static void usage(void)
{
    fprintf(stderr, "usage: calls sleep|hold|ask|switch|spawn CALLERS TIMES\n");
    exit(2);
}

int main(int count, char **values)
{
    if (count != 4)
        usage();
    caller_count = strtol(values[2], NULL, 10);
    times = strtol(values[3], NULL, 10);
    if (strcmp(values[1], "sleep") == 0) {
        run(sleep_often);
    } else if (strcmp(values[1], "hold") == 0) {
        run(sleep_long);
    } else if (strcmp(values[1], "ask") == 0) {
        open_all();
        run(ask_often);
    } else if (strcmp(values[1], "switch") == 0) {
        run(take_turns);
    } else if (strcmp(values[1], "spawn") == 0) {
        run(spawn_often);
    } else {
        usage();
    }
    return 0;
}
