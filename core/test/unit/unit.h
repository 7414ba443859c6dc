/* unit.h: the tests of single source files of the core; they may include the headers in src/. */
#ifndef MILLRACE_UNIT_H
#define MILLRACE_UNIT_H

#include "../harness.h"

/* The files of this directory: X(file) stands for a table file_tests[] that ends with a test without a name. */
#define UNIT_FILES_EVERYWHERE(X) \
    X(handle)                    \
    X(mailbox)                   \
    X(scarcity)                  \
    X(timer)

#ifdef _WIN32
#define UNIT_FILES(X) UNIT_FILES_EVERYWHERE(X) X(windows_error)
#else
#define UNIT_FILES(X) \
    UNIT_FILES_EVERYWHERE(X) X(machine) X(machine_calls) X(machine_datagrams) X(machine_faults) X(machine_files)
#endif

#define UNIT_DECLARE(file) extern const harness_test file##_tests[];
UNIT_FILES(UNIT_DECLARE)
#undef UNIT_DECLARE

/* In handle.c, the function `f` becomes the test handle/f. */
#define UNIT(file, function)             \
    {                                    \
#file "/" #function, function, 0 \
    }

#endif
