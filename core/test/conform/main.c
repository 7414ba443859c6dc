/* main.c: the conformance suite as a program: every case on every backend, and the cases about their choice. */
#include "conform.h"
#ifndef _WIN32
#include "../system/calls.h"
#endif
#ifdef CONFORM_WITH_FAULTS
#include "../fault/fault.h"
extern const conform_case writes_of_nothing_cases[];
/* The unit tests of simulated machines. */
extern const harness_test machine_tests[], machine_address_calls_tests[], machine_calls_tests[],
    machine_datagrams_tests[], machine_faults_tests[], machine_file_calls_tests[], machine_files_tests[],
    machine_socket_calls_tests[];
#endif

mr_backend conform_backend;
bool conform_fixes_owners;

/* Cases that concern no particular backend. */
extern const conform_case choice_cases[], seccomp_cases[];

typedef struct conform_file {
    const char *name;
    const conform_case *cases;
} conform_file;

static const conform_file files[] = {
#define CONFORM_ENTRY(file) {#file, file##_cases},
    CONFORM_FILES(CONFORM_ENTRY)
#undef CONFORM_ENTRY
};

enum { TESTS_MAX = 2048, NAME_MAX_BYTES = 128 };

#define FIXED_OWNERS "io_uring_of_one_thread"

typedef struct planned_case {
    mr_backend backend; /* MR_BACKEND_AUTO: none in particular */
    bool fixes_owners;
    const conform_case *conform_case;
    char name[NAME_MAX_BYTES];
} planned_case;

static planned_case plan[TESTS_MAX];
static harness_test tests[TESTS_MAX];
static size_t test_count;

static void run_case(uintptr_t index)
{
    const planned_case *planned = &plan[index];
    char reason[256];
#ifndef _WIN32
    if (planned->backend == MR_BACKEND_SIM)
        CHECK_EQ(mr_machine_create(&(mr_machine_plan){.seed = harness_first_seed() + index}, &test_machine), 0);
    else
#endif
        if (planned->backend != MR_BACKEND_AUTO && mr_backend_probe(planned->backend, reason, sizeof reason) != 0)
        SKIP("%s", reason);
    conform_backend = planned->backend;
    conform_fixes_owners = planned->fixes_owners;
#ifdef CONFORM_WITH_FAULTS
    fault_run(planned->conform_case->run,
              planned->backend == MR_BACKEND_SIM ? FAULT_MAY_END_THE_PROCESS : FAULT_REACHES_ITS_CALLER);
#else
    planned->conform_case->run();
#endif
}

static bool is_of_this_system(mr_backend backend)
{
#ifndef _WIN32
    if (backend == MR_BACKEND_SIM)
        return true;
#endif
    return mr_backend_probe(backend, NULL, 0) != -ENOTSUP;
}

static void add_case(const char *backend_name, mr_backend backend, const char *file, const conform_case *added)
{
    CHECK_LT(test_count, TESTS_MAX);
    planned_case *planned = &plan[test_count];
    *planned = (planned_case){
        .backend = backend, .conform_case = added, .fixes_owners = strcmp(backend_name, FIXED_OWNERS) == 0};
    snprintf(planned->name, sizeof planned->name, "%s%s%s/%s", backend_name, *backend_name ? "/" : "", file,
             added->name);
    tests[test_count] = (harness_test){planned->name, run_case, test_count};
    test_count++;
}

static void add_cases(mr_backend backend, const char *file, const conform_case *cases)
{
    for (; cases->name; cases++)
        add_case(backend ? mr_backend_name(backend) : "", backend, file, cases);
}

#ifdef CONFORM_WITH_FAULTS
static const harness_test *unit_test;

static void run_unit_test(void)
{
    unit_test->run(unit_test->argument);
}

static void run_unit_test_with_faults(uintptr_t test)
{
    unit_test = (const harness_test *)test;
    fault_run(run_unit_test, FAULT_MAY_END_THE_PROCESS);
}

static void add_unit_tests(const harness_test *unit_tests)
{
    for (; unit_tests->name; unit_tests++)
        tests[test_count++] = (harness_test){unit_tests->name, run_unit_test_with_faults, (uintptr_t)unit_tests};
}
#endif

#if defined __linux__ && !defined CONFORM_WITH_FAULTS
/* io_uring once more, with rings that belong to one thread: all cases except those with several owners. */
static void add_cases_of_fixed_owners(const char *file, const conform_case *cases)
{
    for (; strcmp(file, "threads") != 0 && cases->name; cases++)
        add_case(FIXED_OWNERS, MR_BACKEND_IO_URING, file, cases);
}
#endif

int main(int argc, char **argv)
{
    add_cases(MR_BACKEND_AUTO, "choice", choice_cases);
#ifdef __linux__
    add_cases(MR_BACKEND_AUTO, "seccomp", seccomp_cases);
#endif
    for (mr_backend backend = MR_BACKEND_AUTO + 1; backend < MR_BACKEND_COUNT; backend++)
        for (size_t i = 0; is_of_this_system(backend) && i < sizeof files / sizeof *files; i++)
            add_cases(backend, files[i].name, files[i].cases);
#if defined __linux__ && !defined CONFORM_WITH_FAULTS
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        add_cases_of_fixed_owners(files[i].name, files[i].cases);
#endif
#ifdef CONFORM_WITH_FAULTS
    /* Such a fault cannot be injected into io_uring. */
    add_cases(MR_BACKEND_EPOLL, "writes_of_nothing", writes_of_nothing_cases);
    add_unit_tests(machine_tests);
    add_unit_tests(machine_address_calls_tests);
    add_unit_tests(machine_calls_tests);
    add_unit_tests(machine_file_calls_tests);
    add_unit_tests(machine_socket_calls_tests);
    add_unit_tests(machine_datagrams_tests);
    add_unit_tests(machine_faults_tests);
    add_unit_tests(machine_files_tests);
#endif
#ifndef _WIN32
    harness_announce_seed(argc, argv); /* of simulated machines */
#endif
    return harness_main(tests, test_count, argc, argv);
}
