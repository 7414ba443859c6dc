/* harness.c: the runner and the checks of harness.h. */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIME_LIMIT_MS = 20000, STATUS_SKIPPED = 77, STATUS_FAILED = 1 };

/* Most tests wait most of the time, so more of them than the machine has processors run well side by side. */
enum { JOBS_DEFAULT = 4, JOBS_MAX = 64 };

/* Sanitizers slow a program down by about this factor; the Makefile sets it. */
#ifndef HARNESS_SLOWNESS
#define HARNESS_SLOWNESS 1
#endif

typedef enum verdict { PASSED, FAILED, SKIPPED, VERDICTS } verdict;

/* Shared with the process of the test, so that it can be read when that process is stuck. */
typedef struct place {
    const char *file;
    int line;
} place;

/* A test that is running. */
typedef struct job {
    const harness_test *test;
    pid_t child;
    int ended;  /* a pidfd */
    int output; /* a memfd that takes what the test prints */
    long long start_ms;
    place *place;
} job;

static job jobs[JOBS_MAX];
static unsigned running, job_limit;
static place *current_place; /* in the process of a test */

void harness_note_place(const char *file, int line)
{
    __atomic_store_n(&current_place->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&current_place->line, line, __ATOMIC_RELAXED);
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

/* One write, so that messages of several threads do not mix; _exit, because other threads are still running. */
static _Noreturn void end_with_message(int status, const char *prefix, const char *format, va_list arguments)
{
    char message[1024];
    int length = snprintf(message, sizeof message, "%s", prefix);
    vsnprintf(message + length, sizeof message - (size_t)length - 1, format, arguments);
    strcat(message, "\n");
    fflush(stdout);
    if (write(STDERR_FILENO, message, strlen(message)) < 0)
        abort();
    _exit(status);
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

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static _Noreturn void run_in_child(const job *j)
{
    setpgid(0, 0);
    dup2(j->output, STDOUT_FILENO);
    dup2(j->output, STDERR_FILENO);
    /* The test shall find the descriptors that a fresh process has. */
    for (unsigned i = 0; i <= running; i++) {
        close(jobs[i].output);
        if (i < running)
            close(jobs[i].ended);
    }
    current_place = j->place;
    j->test->run(j->test->argument);
    exit(0); /* not _exit: leaks are looked for at exit */
}

static void print_output(int output)
{
    char buffer[4096];
    ssize_t size;
    off_t offset = 0;
    fflush(stdout);
    while ((size = pread(output, buffer, sizeof buffer, offset)) > 0) {
        if (write(STDOUT_FILENO, buffer, (size_t)size) < 0)
            abort();
        offset += size;
    }
}

static verdict judge(const job *j, int status, bool in_time)
{
    if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return PASSED;
    if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == STATUS_SKIPPED)
        return SKIPPED;
    if (!in_time)
        dprintf(j->output, "no end after %d ms; last known place: %s:%d\n", TIME_LIMIT_MS,
                j->place->file ? j->place->file : "none", j->place->line);
    else if (WIFSIGNALED(status))
        dprintf(j->output, "ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != STATUS_FAILED)
        dprintf(j->output, "ended with status %d\n", WEXITSTATUS(status));
    return FAILED;
}

static void start_job(const harness_test *test)
{
    job *j = &jobs[running];
    place *own_place = j->place;
    *j = (job){.test = test, .start_ms = now_ms(), .place = own_place};
    *j->place = (place){0};
    j->output = memfd_create("test output", MFD_CLOEXEC);
    fflush(NULL);
    j->child = fork();
    if (j->child == 0)
        run_in_child(j);
    if (j->child < 0 || j->output < 0 || (j->ended = (int)syscall(SYS_pidfd_open, j->child, 0)) < 0) {
        perror("harness");
        exit(2);
    }
    setpgid(j->child, j->child);
    running++;
}

/* Ends whatever the test has started, and reports. */
static verdict end_job(unsigned index, bool in_time)
{
    static const char *const words[VERDICTS] = {"ok  ", "FAIL", "skip"};
    job j = jobs[index];
    int status = 0;
    kill(-j.child, SIGKILL);
    while (waitpid(j.child, &status, 0) < 0 && errno == EINTR)
        ;
    verdict result = judge(&j, status, in_time);
    printf("%s %s (%lld ms)\n", words[result], j.test->name, now_ms() - j.start_ms);
    if (result != PASSED)
        print_output(j.output);
    fflush(stdout);
    close(j.output);
    close(j.ended);
    jobs[index] = jobs[--running];
    jobs[running].place = j.place;
    return result;
}

/* Waits until one test has ended or has run out of time. */
static verdict await_job(void)
{
    struct pollfd ended[JOBS_MAX];
    for (;;) {
        long long now = now_ms(), left_ms = TIME_LIMIT_MS;
        for (unsigned i = 0; i < running; i++) {
            long long own_ms = jobs[i].start_ms + TIME_LIMIT_MS - now;
            ended[i] = (struct pollfd){.fd = jobs[i].ended, .events = POLLIN};
            left_ms = own_ms < left_ms ? own_ms : left_ms;
        }
        poll(ended, running, left_ms > 0 ? (int)left_ms : 0);
        for (unsigned i = 0; i < running; i++) {
            if (ended[i].revents)
                return end_job(i, true);
            if (now_ms() >= jobs[i].start_ms + TIME_LIMIT_MS)
                return end_job(i, false);
        }
    }
}

static void prepare_jobs(void)
{
    const char *wanted = getenv("HARNESS_JOBS");
    int number = wanted ? atoi(wanted) : JOBS_DEFAULT;
    job_limit = number < 1 ? 1 : number > JOBS_MAX ? JOBS_MAX : (unsigned)number;
    place *places = mmap(NULL, JOBS_MAX * sizeof *places, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (places == MAP_FAILED) {
        perror("harness");
        exit(2);
    }
    for (int i = 0; i < JOBS_MAX; i++)
        jobs[i].place = &places[i];
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
    unsigned tally[VERDICTS] = {0};

    prepare_jobs();
    for (size_t i = 0; i < count; i++) {
        if (list_only) {
            puts(tests[i].name);
        } else if (is_selected(tests[i].name, argc, argv)) {
            if (running == job_limit)
                tally[await_job()]++;
            start_job(&tests[i]);
        }
    }
    if (list_only)
        return 0;
    while (running > 0)
        tally[await_job()]++;
    write_summary(tally);
    if (tally[SKIPPED])
        printf("%u could not run here\n", tally[SKIPPED]);
    printf("%u passed, %u failed\n", tally[PASSED], tally[FAILED]);
    return tally[FAILED] || !(tally[PASSED] || tally[SKIPPED]) ? 1 : 0;
}
