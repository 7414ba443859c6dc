/* main.c: the unit tests as a program. */
#include "unit.h"

enum { TESTS_MAX = 512 };

static harness_test tests[TESTS_MAX];
static size_t test_count;

static void add(const harness_test *table)
{
    for (; table->name && test_count < TESTS_MAX; table++)
        tests[test_count++] = *table;
}

int main(int argc, char **argv)
{
#define UNIT_ADD(file) add(file##_tests);
    UNIT_FILES(UNIT_ADD)
#undef UNIT_ADD
    harness_announce_seed(argc, argv);
    return harness_main(tests, test_count, argc, argv);
}
