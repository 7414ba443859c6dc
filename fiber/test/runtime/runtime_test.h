/*
 * runtime_test.h: what the tests of the fibers' own interface share: the list of their files, deadlines, carriers.
 * Every case starts the carriers that it needs.
 */
#ifndef MILLRACE_FIBER_RUNTIME_TEST_H
#define MILLRACE_FIBER_RUNTIME_TEST_H

#include "../fiber_test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The files of this directory: X(file) stands for a table file_cases[] that ends with a case without a name. */
#define RUNTIME_FILES(X) \
    X(carriers)          \
    X(channel)           \
    X(context)           \
    X(event)             \
    X(fiber)             \
    X(fork)              \
    X(interrupt)         \
    X(mutex)             \
    X(select)            \
    X(semaphore)         \
    X(stack)

#define RUNTIME_DECLARE(file) extern const fiber_case file##_cases[];
RUNTIME_FILES(RUNTIME_DECLARE)
#undef RUNTIME_DECLARE

/* A deadline that is only reached when something is broken. */
static inline uint64_t far_deadline(void)
{
    return mr_clock_now_ns() + 45000 * NS_PER_MS;
}

static inline uint64_t in_ms(uint64_t ms)
{
    return mr_clock_now_ns() + ms * NS_PER_MS;
}

/* Starts that many carriers with the default options. */
void start_carriers(unsigned count);

#endif
