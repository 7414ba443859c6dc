/*
 * shadow_test.h: what the tests of the shadowed calls share. Each case runs on every backend with one carrier, so that
 * a call that blocks its carrier stops every other fiber.
 */
#ifndef MILLRACE_FIBER_SHADOW_TEST_H
#define MILLRACE_FIBER_SHADOW_TEST_H

#include "harness.h"
#include "millrace_fiber.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct shadow_case {
    const char *name;
    void (*run)(void);
} shadow_case;

#define CASE(function) {#function, function}

#define SHADOW_FILES(X)                                                                                                \
    X(close)                                                                                                           \
    X(defects)                                                                                                         \
    X(file)                                                                                                            \
    X(interrupt)                                                                                                       \
    X(name)                                                                                                            \
    X(process)                                                                                                         \
    X(pthread)                                                                                                         \
    X(report)                                                                                                          \
    X(server)                                                                                                          \
    X(sleep)

#define SHADOW_DECLARE(file) extern const shadow_case file##_cases[];
SHADOW_FILES(SHADOW_DECLARE)
#undef SHADOW_DECLARE

#define NS_PER_MS UINT64_C(1000000)

mr_fiber *spawn(void *(*run)(void *), void *argument);
void *join(mr_fiber *fiber);
void *on_fiber(void *(*run)(void *), void *argument);

/*
 * Runs the function on a fiber while another fiber of the same carrier counts; fails unless that one got to run at
 * least once in each of `periods` of 10 ms, that is unless the function left the carrier free.
 */
void must_leave_carrier_free(void *(*run)(void *), void *argument, unsigned periods);

/* A connected pair of Unix stream sockets. */
typedef struct pair {
    int ends[2];
} pair;

pair new_pair(void);
void close_pair(pair *p);

#endif
