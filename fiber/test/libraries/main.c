/* main.c: blocking libraries from the system's packages, unmodified, on fibers. Started by test/libraries/run. */
#include "libraries.h"

#include <dirent.h>

typedef struct library_case {
    const char *name;
    void (*run)(void);
} library_case;

static const library_case cases[] = {
    {"postgresql/many_queries", postgresql_many_queries},
    {"postgresql/interrupted_query", postgresql_interrupted_query},
    {"redis/many_blocked_connections", redis_many_blocked_connections},
    {"curl/parallel_download", curl_parallel_download},
    {"curl/from_a_server_of_fibers", curl_from_a_server_of_fibers},
};

enum { CASES = sizeof cases / sizeof *cases, NAME_MAX_BYTES = 96 };

static const mr_backend backends[] = {MR_BACKEND_IO_URING, MR_BACKEND_EPOLL};

enum { BACKENDS = sizeof backends / sizeof *backends };

static void run_case(uintptr_t index)
{
    mr_backend backend = backends[index / CASES];
    char reason[256];
    if (mr_backend_probe(backend, reason, sizeof reason) != 0)
        SKIP("%s", reason);
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = 1, .backend = backend}), 0);
    cases[index % CASES].run();
    CHECK_EQ(mr_carriers_stop(), 0);
}

int main(int argc, char **argv)
{
    static char names[BACKENDS * CASES][NAME_MAX_BYTES];
    static harness_test tests[BACKENDS * CASES];
    for (uintptr_t i = 0; i < BACKENDS * CASES; i++) {
        snprintf(names[i], NAME_MAX_BYTES, "%s/%s", mr_backend_name(backends[i / CASES]), cases[i % CASES].name);
        tests[i] = (harness_test){names[i], run_case, i};
    }
    return harness_main(tests, BACKENDS * CASES, argc, argv);
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

const char *setting(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        FAIL("%s is not set: test/libraries/run starts the servers and sets it", name);
    return value;
}

unsigned os_threads(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/task");
    CHECK(directory != NULL);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2; /* . and .. */
}
