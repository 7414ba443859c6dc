/*
 * runner.h: how harness.c runs tests at the same time, each in a separate process. system/ implements it once per
 * system.
 */
#ifndef MILLRACE_TEST_RUNNER_H
#define MILLRACE_TEST_RUNNER_H

#include "harness.h"

#include <stdbool.h>

#ifndef HARNESS_TIME_LIMIT_MS
#define HARNESS_TIME_LIMIT_MS 60000 /* for a machine that is busy with other things too */
#endif

enum { TIME_LIMIT_MS = HARNESS_TIME_LIMIT_MS, JOBS_MAX = 60 };
/* The exit codes of a test's process. The last one is also a sanitizer's. */
enum { STATUS_FAILED = 1, STATUS_SKIPPED = 77, STATUS_LEAKED = 99 };

/* Whether a test that fails a check searches for leaks. Programs that inject failures set it, because most of their
 * tests end like that. */
#ifndef HARNESS_FINDS_LEAKS
#define HARNESS_FINDS_LEAKS 0
#endif

/* Called before the search for leaks, if it is defined: for a program that must stop other threads or fibers first. */
void runner_before_leaks(void) __attribute__((weak));

typedef enum verdict { PASSED, FAILED, SKIPPED, VERDICTS } verdict;

/* The line of the test that runs. */
typedef struct source_line {
    const char *file;
    int line;
} source_line;

/* Must be called first. Does not return in the process of a test. */
void runner_prepare(const harness_test *tests, size_t count, int argc, char **argv);

/* Starts one of the tests. */
void runner_start(const harness_test *test);

/* Waits until a test has ended or exceeded its time limit, ends all processes that it has started, and reports it
 * (runner_report). */
verdict runner_await(void);

/* In the process of a test: where it records its current line, which is read when it hangs; and how it ends while other
 * threads are running. */
source_line *runner_line(void);
_Noreturn void runner_leave(int status);

/* harness.c: prints how a test ended. */
void runner_report(const harness_test *test, verdict result, long long duration_ms);
long long runner_now_ms(void);

#endif
