/*
 * harness.h: a small test harness: checks that print what they compared, and a runner that isolates every test.
 *
 * Each test runs in a separate process, with a time limit, so that a hang, a crash or a changed resource limit concerns
 * that test only. The checks do not depend on NDEBUG and may be used on any thread. Must not know: operations, fibers.
 */
#ifndef MILLRACE_TEST_HARNESS_H
#define MILLRACE_TEST_HARNESS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __MINGW_PRINTF_FORMAT /* that of C, not of Microsoft's library */
#define HARNESS_FORMAT __MINGW_PRINTF_FORMAT
#else
#define HARNESS_FORMAT printf
#endif

/* One test: `run` returns when it has passed. The harness passes `argument` on to `run`. */
typedef struct harness_test {
    const char *name;
    void (*run)(uintptr_t argument);
    uintptr_t argument;
} harness_test;

/*
 * The main function of a test program: runs the tests whose names contain one of the words on the command line (all,
 * without words), a few at a time (HARNESS_JOBS in the environment: how many); `--list` prints the names instead. Ends
 * with "N passed, N failed", preceded by the number of tests that could not run, and returns the exit status. With
 * HARNESS_SUMMARY in the environment, the three numbers are appended to the file of that name.
 */
int harness_main(const harness_test *tests, size_t count, int argc, char **argv);

/* How many rounds of a stress test to run: `rounds` in a plain build, fewer under a sanitizer, at least 1. */
unsigned harness_rounds(unsigned rounds);

/* Reproducible random numbers; `state` is any number but 0. */
uint32_t harness_random(uint64_t *state);

/* For tests that run from several seeds, or draw one: the first is 1, or MILLRACE_FIRST_SEED in the environment; not 0.
 * The main function of a program with such tests prints it once, before harness_main. */
uint64_t harness_first_seed(void);
void harness_announce_seed(int argc, char **argv);

/* Records the test's current line, which the harness prints if the test exceeds its time limit. */
void harness_note_line(const char *file, int line);
#define NOTE_LINE() harness_note_line(__FILE__, __LINE__)

_Noreturn void harness_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(HARNESS_FORMAT, 3, 4)));
_Noreturn void harness_skip(const char *format, ...) __attribute__((format(HARNESS_FORMAT, 1, 2)));
void harness_compare_memory(const char *file, int line, const char *actual_text, const void *actual,
                            const void *expected, size_t size);

/* Ends the test as skipped, with the reason, because this machine lacks a precondition of the test. */
#define SKIP(...) harness_skip(__VA_ARGS__)
#define FAIL(...) harness_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(condition)                          \
    do {                                          \
        if (!(condition))                         \
            FAIL("%s does not hold", #condition); \
    } while (0)

#define CHECK_COMPARE(actual, operator, expected)                                                                    \
    do {                                                                                                             \
        long long check_actual = (long long)(actual), check_expected = (long long)(expected);                        \
        if (!(check_actual operator check_expected))                                                                 \
            FAIL("%s %s %s does not hold: %lld, %lld", #actual, #operator, #expected, check_actual, check_expected); \
    } while (0)

#define CHECK_EQ(actual, expected) CHECK_COMPARE(actual, ==, expected)
#define CHECK_NE(actual, expected) CHECK_COMPARE(actual, !=, expected)
#define CHECK_LT(actual, expected) CHECK_COMPARE(actual, <, expected)
#define CHECK_LE(actual, expected) CHECK_COMPARE(actual, <=, expected)
#define CHECK_GT(actual, expected) CHECK_COMPARE(actual, >, expected)
#define CHECK_GE(actual, expected) CHECK_COMPARE(actual, >=, expected)

#define CHECK_MEMORY(actual, expected, size) harness_compare_memory(__FILE__, __LINE__, #actual, actual, expected, size)

/* A system call of the test itself that must succeed; its value. */
#define MUST(call)                                         \
    __extension__({                                        \
        long long must_value = (long long)(call);          \
        if (must_value < 0)                                \
            FAIL("%s failed: %s", #call, strerror(errno)); \
        (int)must_value;                                   \
    })

#endif
