/*
 * runtime.h: the process's carriers. They are started once, and stopped or left behind by fork.
 */
#ifndef MILLRACE_FIBER_RUNTIME_H
#define MILLRACE_FIBER_RUNTIME_H

#include "carrier.h"

struct mf_runtime {
    mr_group *group;
    mf_carrier *carriers;
    unsigned count;
    size_t stack_size_bytes;
    atomic_uint fibers; /* that have not ended, or are about to begin */
};

/* The runtime, started with default options if there is none, with one more fiber on its account: it stays until
 * mf_runtime_uncount. 0 or a negative errno. [any thread] */
int mf_runtime_count(mf_runtime **runtime);
void mf_runtime_uncount(mf_runtime *runtime);

/* Call this in the child of a fork that has run no handlers. There is no runtime and no fiber any more. */
void mf_runtime_forget_after_fork(void);

/* The less loaded of two random carriers, or the one that is preferred (as in mr_fiber_options) unless it is loaded
 * much more, with the load of one more fiber. [any thread] */
mf_carrier *mf_runtime_place(mf_runtime *runtime, unsigned preferred);

#endif
