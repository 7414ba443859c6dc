/* main.c: the tests of the fibers' own interface as a program: every case on every backend. */
#include "runtime_test.h"

#include <stdio.h>

enum { TESTS_MAX = 512, NAME_MAX_BYTES = 128 };

typedef struct planned_case {
    mr_backend backend;
    const runtime_case *runtime_case;
    char name[NAME_MAX_BYTES];
} planned_case;

static planned_case plan[TESTS_MAX];
static harness_test tests[TESTS_MAX];
static size_t test_count;

static void run_case(uintptr_t index)
{
    const planned_case *planned = &plan[index];
    char reason[256];
    if (mr_backend_probe(planned->backend, reason, sizeof reason) != 0)
        SKIP("%s", reason);
    MUST(setenv("MILLRACE_BACKEND", mr_backend_name(planned->backend), 1));
    planned->runtime_case->run();
}

static void add_cases(mr_backend backend, const char *file, const runtime_case *cases)
{
    for (; cases->name; cases++) {
        planned_case *planned = &plan[test_count];
        CHECK_LT(test_count, TESTS_MAX);
        *planned = (planned_case){.backend = backend, .runtime_case = cases};
        snprintf(planned->name, sizeof planned->name, "%s/%s/%s", mr_backend_name(backend), file, cases->name);
        tests[test_count] = (harness_test){planned->name, run_case, test_count};
        test_count++;
    }
}

int main(int argc, char **argv)
{
    static const mr_backend backends[] = {MR_BACKEND_IO_URING, MR_BACKEND_EPOLL};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
#define RUNTIME_ADD(file) add_cases(backends[i], #file, file##_cases);
        RUNTIME_FILES(RUNTIME_ADD)
#undef RUNTIME_ADD
    }
    return harness_main(tests, test_count, argc, argv);
}

/* ------------------------------------------------------------------------------------------------ for the cases --- */

void start_carriers(unsigned count)
{
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = count}), 0);
}

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
