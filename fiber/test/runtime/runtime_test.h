/*
 * runtime_test.h: what the tests of the fibers' own interface share: a table of cases per file, and short ways to say
 * what nearly every case does. Every case runs on every backend.
 */
#ifndef MILLRACE_FIBER_RUNTIME_TEST_H
#define MILLRACE_FIBER_RUNTIME_TEST_H

#include "harness.h"
#include "millrace_fiber.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct runtime_case {
    const char *name;
    void (*run)(void);
} runtime_case;

#define CASE(function) {#function, function}

/* The files of this directory: X(file) stands for a table file_cases[] that ends with a case without a name. */
#define RUNTIME_FILES(X)                                                                                               \
    X(carriers)                                                                                                        \
    X(channel)                                                                                                         \
    X(context)                                                                                                         \
    X(event)                                                                                                           \
    X(fiber)                                                                                                           \
    X(fork)                                                                                                            \
    X(interrupt)                                                                                                       \
    X(mutex)                                                                                                           \
    X(select)                                                                                                          \
    X(semaphore)                                                                                                       \
    X(stack)

#define RUNTIME_DECLARE(file) extern const runtime_case file##_cases[];
RUNTIME_FILES(RUNTIME_DECLARE)
#undef RUNTIME_DECLARE

#define NS_PER_MS UINT64_C(1000000)

/* A deadline that is only reached when something is broken. */
static inline uint64_t far_deadline(void)
{
    return mr_clock_now_ns() + 15000 * NS_PER_MS;
}

static inline uint64_t in_ms(uint64_t ms)
{
    return mr_clock_now_ns() + ms * NS_PER_MS;
}

/* Starts that many carriers with the default options. */
void start_carriers(unsigned count);

/* A fiber that must be joined. */
mr_fiber *spawn(void *(*run)(void *), void *argument);
void *join(mr_fiber *fiber);

/* Spawns and joins. */
void *on_fiber(void *(*run)(void *), void *argument);

#endif
