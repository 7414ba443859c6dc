/* fiber_test.c: the list of cases that a test program runs, and helpers for tests. */
#include "fiber_test.h"

#ifdef FIBER_WITH_FAULTS
#include "fault/fault.h"
#include "runner.h"

/* LeakSanitizer holds locks. A fiber that parked meanwhile would leave them locked to its carrier. */
void runner_before_leaks(void)
{
    mr_fiber_enter_thread();
}
#endif

#include <stdlib.h>

enum { CASES_MAX = 256, NAME_MAX_BYTES = 128 };

static const mr_backend backends[] = {MR_BACKEND_IO_URING, MR_BACKEND_EPOLL};

enum { BACKENDS = sizeof backends / sizeof *backends };

/* A case without its backend. */
typedef struct planned_case {
    const char *file; /* NULL: none */
    const char *name;
    void (*run)(uintptr_t argument);
    uintptr_t argument;
} planned_case;

static planned_case plan[CASES_MAX];
static size_t planned;
static carriers_of carriers_are;

static void add(const char *file, const char *name, void (*run)(uintptr_t argument), uintptr_t argument)
{
    CHECK_LT(planned, CASES_MAX);
    plan[planned++] = (planned_case){file, name, run, argument};
}

void plan_case(const char *name, void (*run)(uintptr_t argument), uintptr_t argument)
{
    add(NULL, name, run, argument);
}

static void run_without_argument(uintptr_t argument)
{
    ((const fiber_case *)argument)->run();
}

void plan_cases(const char *file, const fiber_case *cases)
{
    for (; cases->name; cases++)
        add(file, cases->name, run_without_argument, (uintptr_t)cases);
}

static const planned_case *current;

static void run_current(void)
{
    if (carriers_are == ONE_CARRIER_OF_PLAN)
        CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = 1}), 0);
    current->run(current->argument);
    if (carriers_are == ONE_CARRIER_OF_PLAN)
        CHECK_EQ(mr_carriers_stop(), 0);
}

static void run_on_backend(uintptr_t index)
{
    mr_backend backend = backends[index / CASES_MAX];
    char reason[256];
    if (mr_backend_probe(backend, reason, sizeof reason) != 0)
        SKIP("%s", reason);
    MUST(setenv("MILLRACE_BACKEND", mr_backend_name(backend), 1));
    current = &plan[index % CASES_MAX];
#ifdef FIBER_WITH_FAULTS
    fault_run(run_current, FAULT_REACHES_ITS_CALLER);
#else
    run_current();
#endif
}

int run_plan(carriers_of carriers, int argc, char **argv)
{
    static char names[BACKENDS * CASES_MAX][NAME_MAX_BYTES];
    static harness_test tests[BACKENDS * CASES_MAX];
    size_t count = 0;
    carriers_are = carriers;
    for (size_t b = 0; b < BACKENDS; b++) {
        for (size_t i = 0; i < planned; i++, count++) {
            const char *file = plan[i].file;
            snprintf(names[count], NAME_MAX_BYTES, "%s/%s%s%s", mr_backend_name(backends[b]), file ? file : "",
                     file ? "/" : "", plan[i].name);
            tests[count] = (harness_test){names[count], run_on_backend, b * CASES_MAX + i};
        }
    }
    return harness_main(tests, count, argc, argv);
}

/* ------------------------------------------------------------------------------------------------ for the cases --- */

mr_fiber *spawn(void *(*run)(void *), void *argument)
{
    mr_fiber *fiber;
    CHECK_EQ(mr_fiber_spawn(&fiber, NULL, run, argument), 0);
    return fiber;
}

void *join(mr_fiber *fiber)
{
    void *result;
    CHECK_EQ(mr_fiber_join(fiber, &result), 0);
    return result;
}

void *on_fiber(void *(*run)(void *), void *argument)
{
    return join(spawn(run, argument));
}

/* It runs after all others, and its sleep lets the loop poll. */
static void *sleep_last(void *argument)
{
    CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
    return argument;
}

void let_fibers_park(void)
{
    on_fiber(sleep_last, NULL);
}
