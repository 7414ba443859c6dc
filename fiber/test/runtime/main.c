/* main.c: the tests of the fibers' own interface as a program. */
#include "runtime_test.h"

int main(int argc, char **argv)
{
#define RUNTIME_PLAN(file) plan_cases(#file, file##_cases);
    RUNTIME_FILES(RUNTIME_PLAN)
#undef RUNTIME_PLAN
    return run_plan(CARRIERS_OF_CASE, argc, argv);
}

void start_carriers(unsigned count)
{
    CHECK_EQ(mr_carriers_start(&(mr_carriers_options){.carriers = count}), 0);
}
