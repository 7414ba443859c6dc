/*
 * runtime.h: the process's carriers: started once, found from everywhere, stopped or left behind by fork.
 */
#ifndef MILLRACE_FIBER_RUNTIME_H
#define MILLRACE_FIBER_RUNTIME_H

#include "carrier.h"

typedef struct mf_runtime {
    mr_group *group;
    mf_carrier *carriers;
    unsigned count;
    size_t stack_size_bytes;
    atomic_uint fibers; /* that have not ended */
} mf_runtime;

/* The runtime, started with default options if there is none. 0 or a negative errno. [any thread] */
int mf_runtime_get(mf_runtime **runtime);

/* The less loaded of two random carriers, with the load of one more fiber. [any thread] */
mf_carrier *mf_runtime_place(mf_runtime *runtime);

/* Takes a fiber off the accounts. */
void mf_runtime_note_end(mf_carrier *carrier);

#endif
