/* report.c: reports of calls that are not interposed, and of locks that a fiber holds while it parks. */
#include "interpose_test.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <wordexp.h>

enum { LINES_MAX = 64, LINE_BYTES = 800 };

static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[LINES_MAX][LINE_BYTES];
static int line_count;

static void take_line(const char *line)
{
    pthread_mutex_lock(&lines_lock);
    if (line_count < LINES_MAX)
        snprintf(lines[line_count++], LINE_BYTES, "%s", line);
    pthread_mutex_unlock(&lines_lock);
}

/* Counts the lines that contain all three words. Prints all lines, for the case that the count is wrong. */
static int lines_with(const char *one, const char *other, const char *third)
{
    int count = 0;
    pthread_mutex_lock(&lines_lock);
    for (int i = 0; i < line_count; i++) {
        count += strstr(lines[i], one) && strstr(lines[i], other) && strstr(lines[i], third);
        puts(lines[i]);
    }
    pthread_mutex_unlock(&lines_lock);
    return count;
}

static void restart(mr_carriers_options options)
{
    CHECK_EQ(mr_carriers_stop(), 0);
    options.carriers = 1;
    options.report = take_line;
    CHECK_EQ(mr_carriers_start(&options), 0);
}

static void run_named(const char *name, void *(*run)(void *), void *argument)
{
    mr_fiber *fiber;
    CHECK_EQ(mr_fiber_spawn(&fiber, &(mr_fiber_options){.name = name}, run, argument), 0);
    join(fiber);
}

/* ---------------------------------------------------------------------------------------------------- uncovered --- */

static void look_for(void *argument, const char *object, const char *function)
{
    unsigned *found = argument;
    CHECK_NE(strcmp(function, "recv"), 0);
    CHECK_NE(strcmp(function, "fputs"), 0);
    CHECK_NE(strcmp(function, "pthread_mutex_lock"), 0);
    bool is_known = strcmp(function, "sigtimedwait") == 0 || strcmp(function, "fputws") == 0 ||
                    strcmp(function, "gethostent") == 0 || strcmp(function, "wordexp") == 0 ||
                    strcmp(function, "getlogin_r") == 0;
    *found += is_known && strcmp(object, "the program") == 0;
}

/* Imports by address. */
static struct hostent *(*volatile next_host)(void) = gethostent;
static int (*volatile expand_words)(const char *, wordexp_t *, int) = wordexp;
static int (*volatile name_user)(char *, size_t) = getlogin_r;

static void imports_that_are_not_interposed(void)
{
    unsigned found = 0;
    CHECK(next_host != NULL && expand_words != NULL && name_user != NULL);
    CHECK_GE(mr_uncovered_calls(look_for, &found), 5);
    CHECK_EQ(found, 5); /* this file imports four, another one the fifth */
    restart((mr_carriers_options){.reports_uncovered_calls = 1});
    CHECK_EQ(lines_with("the program imports", "sigtimedwait", ""), 1);
}

/* ----------------------------------------------------------------------------------------------------- watchdog --- */

static void *wait_for_signal(void *argument)
{
    struct timespec timeout = {.tv_nsec = 400000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK_EQ(sigtimedwait(&set, NULL, &timeout), -1);
    return argument;
}

static void *compute(void *argument)
{
    uint64_t until_ns = mr_clock_now_ns() + 400 * NS_PER_MS;
    while (mr_clock_now_ns() < until_ns)
        ;
    return argument;
}

static void the_watchdog_names_the_call(void)
{
    SKIP_UNDER_ASAN_FROM_GCC(14);
    if (!has_own_system_calls_in_proc())
        SKIP("/proc shows the system calls of an emulator");
    restart((mr_carriers_options){.watchdog_ms = 50});
    run_named("waiter", wait_for_signal, NULL);
    CHECK_EQ(lines_with("\"waiter\"", "sigtimedwait", "called from"), 1);
    run_named("hog", compute, NULL);
    CHECK_EQ(lines_with("carrier 0", "\"hog\"", " in "), 1);
    CHECK_EQ(lines_with("", "", ""), 2); /* once each, and nothing about fibers that park */
}

static void *park_often(void *argument)
{
    for (int i = 0; i < 30; i++)
        usleep(50000);
    return argument;
}

static void the_watchdog_is_silent_about_parked_fibers(void)
{
    restart((mr_carriers_options){.watchdog_ms = 1000});
    run_named("sleeper", park_often, NULL);
    CHECK_EQ(lines_with("sleeper", "", ""), 0);
}

/* -------------------------------------------------------------------------------------------------------- locks --- */

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *sleep_with_lock(void *argument)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(pthread_mutex_lock(&held), 0);
        usleep(1000);
        CHECK_EQ(pthread_mutex_unlock(&held), 0);
    }
    return argument;
}

static void a_lock_held_over_a_park(void)
{
    restart((mr_carriers_options){.reports_held_locks = 1});
    run_named("holder", sleep_with_lock, NULL);
    CHECK_EQ(lines_with("\"holder\" parks in usleep", "called at", "while it holds the lock taken at"), 1);
    CHECK_EQ(lines_with("", "", ""), 1); /* once for each call site */
}

static void *sleep_after_unlocking(void *argument)
{
    CHECK_EQ(pthread_mutex_lock(&held), 0);
    CHECK_EQ(pthread_mutex_unlock(&held), 0);
    usleep(1000);
    return argument;
}

static void a_lock_that_was_given_up(void)
{
    restart((mr_carriers_options){.reports_held_locks = 1});
    run_named("careful", sleep_after_unlocking, NULL);
    CHECK_EQ(lines_with("", "", ""), 0);
}

static void nothing_is_said_unasked(void)
{
    restart((mr_carriers_options){0});
    run_named("holder", sleep_with_lock, NULL);
    run_named("waiter", wait_for_signal, NULL);
    CHECK_EQ(lines_with("", "", ""), 0);
}

const fiber_case report_cases[] = {
    CASE(imports_that_are_not_interposed),
    CASE(the_watchdog_names_the_call),
    CASE(the_watchdog_is_silent_about_parked_fibers),
    CASE(a_lock_held_over_a_park),
    CASE(a_lock_that_was_given_up),
    CASE(nothing_is_said_unasked),
    {0},
};
