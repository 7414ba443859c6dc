/* harness.c: the checks of harness.h, and which tests run. How they run is in runner.h. */
#include "harness.h"

#include "runner.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Most tests wait most of the time, so more tests than processors can run at the same time. */
enum { JOBS_DEFAULT = 4 };

/* Sanitizers slow a program down by about this factor; the Makefile sets it. */
#ifndef HARNESS_SLOWNESS
#define HARNESS_SLOWNESS 1
#endif

void harness_note_line(const char *file, int line)
{
    __atomic_store_n(&runner_line()->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&runner_line()->line, line, __ATOMIC_RELAXED);
}

unsigned harness_rounds(unsigned rounds)
{
    return rounds > HARNESS_SLOWNESS ? rounds / HARNESS_SLOWNESS : 1;
}

uint32_t harness_random(uint64_t *state)
{
    /* xorshift64* (Vigna 2016) */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)(*state * UINT64_C(2685821657736338717) >> 32);
}

uint64_t harness_first_seed(void)
{
    const char *wanted = getenv("MILLRACE_FIRST_SEED");
    uint64_t seed = wanted ? strtoull(wanted, NULL, 10) : 0;
    return seed ? seed : 1;
}

void harness_announce_seed(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '-')
        return; /* it prints the names of the tests, or is the process of one */
    printf("seeds from %llu on (another first one: MILLRACE_FIRST_SEED)\n", (unsigned long long)harness_first_seed());
    fflush(stdout);
}

/* One write, so that messages of several threads do not mix. */
static _Noreturn void end_with_message(int status, const char *prefix, const char *format, va_list arguments)
{
    char message[1024];
    int length = snprintf(message, sizeof message, "%s", prefix);
    vsnprintf(message + length, sizeof message - (size_t)length - 1, format, arguments);
    strcat(message, "\n");
    fflush(stdout);
    if (write(STDERR_FILENO, message, strlen(message)) < 0)
        abort();
    runner_leave(status);
}

void harness_fail(const char *file, int line, const char *format, ...)
{
    char prefix[256];
    va_list arguments;
    snprintf(prefix, sizeof prefix, "%s:%d: ", file, line);
    va_start(arguments, format);
    end_with_message(STATUS_FAILED, prefix, format, arguments);
}

void harness_skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    end_with_message(STATUS_SKIPPED, "", format, arguments);
}

void harness_compare_memory(const char *file, int line, const char *actual_text, const void *actual,
                            const void *expected, size_t size)
{
    const unsigned char *a = actual, *e = expected;
    for (size_t i = 0; i < size; i++)
        if (a[i] != e[i])
            harness_fail(file, line, "%s differs at byte %zu of %zu: 0x%02x instead of 0x%02x", actual_text, i, size,
                         a[i], e[i]);
}

long long runner_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void runner_report(const harness_test *test, verdict result, long long duration_ms)
{
    static const char *const words[VERDICTS] = {"ok  ", "FAIL", "skip"};
    printf("%s %s (%lld ms)\n", words[result], test->name, duration_ms);
    fflush(stdout);
}

static unsigned job_limit(void)
{
    const char *wanted = getenv("HARNESS_JOBS");
    int number = wanted ? atoi(wanted) : JOBS_DEFAULT;
    return number < 1 ? 1 : number > JOBS_MAX ? JOBS_MAX : (unsigned)number;
}

static bool is_selected(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return true;
    return argc <= 1;
}

static void write_summary(const unsigned *tally)
{
    const char *path = getenv("HARNESS_SUMMARY");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%u %u %u\n", tally[PASSED], tally[FAILED], tally[SKIPPED]);
        fclose(file);
    }
}

int harness_main(const harness_test *tests, size_t count, int argc, char **argv)
{
    bool list_only = argc > 1 && strcmp(argv[1], "--list") == 0;
    unsigned tally[VERDICTS] = {0}, running = 0, limit = job_limit();

    runner_prepare(tests, count, argc, argv);
    for (size_t i = 0; i < count; i++) {
        if (list_only) {
            puts(tests[i].name);
        } else if (is_selected(tests[i].name, argc, argv)) {
            if (running == limit) {
                tally[runner_await()]++;
                running--;
            }
            runner_start(&tests[i]);
            running++;
        }
    }
    if (list_only)
        return 0;
    for (; running > 0; running--)
        tally[runner_await()]++;
    write_summary(tally);
    if (tally[SKIPPED])
        printf("%u could not run here\n", tally[SKIPPED]);
    printf("%u passed, %u failed\n", tally[PASSED], tally[FAILED]);
    return tally[FAILED] || !(tally[PASSED] || tally[SKIPPED]) ? 1 : 0;
}
