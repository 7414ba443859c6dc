/*
 * runner.h: how harness.c runs tests side by side, each in a process of its own; once per system, in system/.
 */
#ifndef MILLRACE_TEST_RUNNER_H
#define MILLRACE_TEST_RUNNER_H

#include "harness.h"

#include <stdbool.h>

#ifndef HARNESS_TIME_LIMIT_MS
#define HARNESS_TIME_LIMIT_MS 60000 /* for a machine that is busy with other things too */
#endif

enum { TIME_LIMIT_MS = HARNESS_TIME_LIMIT_MS, JOBS_MAX = 60 };
/* With which a test's process ends. The last one is a sanitizer's, too. */
enum { STATUS_FAILED = 1, STATUS_SKIPPED = 77, STATUS_LEAKED = 99 };

/* Whether a test that fails a check looks for leaks. Set by what lets calls fail, where most tests end like that. */
#ifndef HARNESS_FINDS_LEAKS
#define HARNESS_FINDS_LEAKS 0
#endif

/* Called before leaks are looked for, if it is defined: for a program whose functions may wait for more than their
 * thread. */
void runner_before_leaks(void) __attribute__((weak));

typedef enum verdict { PASSED, FAILED, SKIPPED, VERDICTS } verdict;

/* Where a test is. */
typedef struct place {
    const char *file;
    int line;
} place;

/* Before anything else. Does not return in the process of a test. */
void runner_prepare(const harness_test *tests, size_t count, int argc, char **argv);

/* Starts one of the tests. */
void runner_start(const harness_test *test);

/* Waits until one has ended or has run out of time, ends whatever it has started, and reports it (runner_report). */
verdict runner_await(void);

/* In the process of a test: where it notes its place, to be read when it is stuck; and how it ends while other threads
 * are running. */
place *runner_place(void);
_Noreturn void runner_leave(int status);

/* harness.c: prints how a test ended. */
void runner_report(const harness_test *test, verdict result, long long duration_ms);
long long runner_now_ms(void);

#endif
