/* main.c: blocking libraries from the system's packages, unmodified, on fibers. Started by test/libraries/run. */
#include "libraries.h"

#include <dirent.h>

static const fiber_case cases[] = {
    {"postgresql/many_queries", postgresql_many_queries},
    {"postgresql/interrupted_query", postgresql_interrupted_query},
    {"redis/many_blocked_connections", redis_many_blocked_connections},
    {"curl/parallel_download", curl_parallel_download},
    {"curl/from_a_server_of_fibers", curl_from_a_server_of_fibers},
    {0},
};

int main(int argc, char **argv)
{
    plan_cases("libraries", cases);
    return run_plan(ONE_CARRIER_OF_PLAN, argc, argv);
}

/* ------------------------------------------------------------------------------------------------ for the cases --- */

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
