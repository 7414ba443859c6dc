/*
 * fault.h: runs a test repeatedly; in each run another system call or allocation of the core (or of the fibers) fails:
 * an allocation, or a system call with one of the errors that its manual page names. Where the objects of the core, and
 * of the fibers, call such a function, they call the one of fault.c (`symbols` lists them); the test's own calls never
 * fail. Must not know: operations, fibers.
 */
#ifndef MILLRACE_TEST_FAULT_H
#define MILLRACE_TEST_FAULT_H

#include "../harness.h"

#include <stdbool.h>

/*
 * Runs a test in child processes: once without a fault, to count its calls, and then with one fault each. A child may
 * pass or fail a check, because the error has reached it. It must not crash, leak or hang. Fails the harness's test if
 * one does. Without memory, some functions of a simulated machine print a message and end the process.
 *
 * FAULTS in the environment: how many random calls fail (MILLRACE_FIRST_SEED); "all"; or the number of one call, as
 * "#12". FAULTS_OF: only calls of functions whose names begin with one of these words.
 */
typedef enum fault_ends { FAULT_REACHES_ITS_CALLER, FAULT_MAY_END_THE_PROCESS } fault_ends;

void fault_run(void (*run)(void), fault_ends ends);

/* As harness_main, with each test run by fault_run. The tests must exist until the program ends. */
int fault_main(const harness_test *tests, size_t count, int argc, char **argv);

/* Sets whether all writes (send, sendmsg, pwrite) of the core return 0 from now on. */
typedef enum fault_writes { FAULT_WRITES_AS_USUAL, FAULT_WRITES_OF_NOTHING } fault_writes;

void fault_set_writes(fault_writes what);

/* For functions of a library that the test wraps: true if this call must fail. */
bool fault_is_due(const char *function, const char *with);

#endif
