/* main.c: the tests of the shadowed calls as a program: every case on every backend. */
#include "shadow_test.h"

#include <sys/socket.h>

#ifdef __SANITIZE_THREAD__
/* TSan takes closing a descriptor that another thread uses for a race. Here that is what is tested. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:^close$\nrace:^dup2$\n";
}
#endif

enum { TESTS_MAX = 256, NAME_MAX_BYTES = 128 };

typedef struct planned_case {
    mr_backend backend;
    const shadow_case *shadow_case;
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
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = 1, .backend = planned->backend}), 0);
    planned->shadow_case->run();
    CHECK_EQ(mr_carriers_stop(), 0);
}

static void add_cases(mr_backend backend, const char *file, const shadow_case *cases)
{
    for (; cases->name; cases++) {
        planned_case *planned = &plan[test_count];
        CHECK_LT(test_count, TESTS_MAX);
        *planned = (planned_case){.backend = backend, .shadow_case = cases};
        snprintf(planned->name, sizeof planned->name, "%s/%s/%s", mr_backend_name(backend), file, cases->name);
        tests[test_count] = (harness_test){planned->name, run_case, test_count};
        test_count++;
    }
}

int main(int argc, char **argv)
{
    static const mr_backend backends[] = {MR_BACKEND_IO_URING, MR_BACKEND_EPOLL};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
#define SHADOW_ADD(file) add_cases(backends[i], #file, file##_cases);
        SHADOW_FILES(SHADOW_ADD)
#undef SHADOW_ADD
    }
    return harness_main(tests, test_count, argc, argv);
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

static atomic_bool stop_counting;

static void *count_periods(void *argument)
{
    unsigned *periods = argument;
    while (!atomic_load(&stop_counting)) {
        CHECK_EQ(mr_fiber_sleep(10 * NS_PER_MS), 0);
        ++*periods;
    }
    return NULL;
}

void must_leave_carrier_free(void *(*run)(void *), void *argument, unsigned periods)
{
    unsigned counted = 0;
    atomic_store(&stop_counting, false);
    mr_fiber *counter = spawn(count_periods, &counted);
    mr_fiber *fiber = spawn(run, argument);
    join(fiber);
    atomic_store(&stop_counting, true);
    join(counter);
    CHECK_GE(counted, periods);
}

pair new_pair(void)
{
    pair p;
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, p.ends));
    return p;
}

void close_pair(pair *p)
{
    MUST(close(p->ends[0]));
    MUST(close(p->ends[1]));
}
