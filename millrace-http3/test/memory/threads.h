/* threads.h - the test with threads: see threads.c. */
#ifndef THREADS_H
#define THREADS_H

#include <stdint.h>

void many_threads(uintptr_t argument);

#endif
