/*
 * fiber_test.h: what all test programs of the fibers share: the list of cases, which run on every backend, and helpers
 * for what most cases do.
 */
#ifndef MILLRACE_FIBER_TEST_H
#define MILLRACE_FIBER_TEST_H

#include "harness.h"
#include "millrace_fiber.h"

#include <stdint.h>

#define NS_PER_MS UINT64_C(1000000)

/* --------------------------------------------------------------------------------------------------------- plan --- */

/* One case of a file; its table ends with a case without a name. */
typedef struct fiber_case {
    const char *name;
    void (*run)(void);
} fiber_case;

#define CASE(function)      \
    {                       \
#function, function \
    }

/* Adds a case, or a table of them with the names FILE/CASE, for every backend. Names are kept, not copied. */
void plan_case(const char *name, void (*run)(uintptr_t argument), uintptr_t argument);
void plan_cases(const char *file, const fiber_case *cases);

/* Who starts the carriers: the case, on the backend that the environment names; or the test program, which starts
 * one. */
typedef enum carriers_of { CARRIERS_OF_CASE, ONE_CARRIER_OF_PLAN } carriers_of;

/* The main function of a test program, after its plan was made. */
int run_plan(carriers_of carriers, int argc, char **argv);

/* ------------------------------------------------------------------------------------------------ for the cases --- */

/* A fiber that must be joined. */
mr_fiber *spawn(void *(*run)(void *), void *argument);
void *join(mr_fiber *fiber);

/* Spawns and joins. */
void *on_fiber(void *(*run)(void *), void *argument);

/* Returns when all fibers spawned earlier have run until they wait, and the loop has their operations. For one
 * carrier. */
void let_fibers_park(void);

#endif
