/*
 * runtime.h: the process's carriers. They are started once. They end when they are stopped, or are left behind by a
 * fork.
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

/* Returns the runtime, with one more fiber counted; it exists until mf_runtime_uncount. If there is none, it is
 * started with default options. Returns 0 or a negative errno. [any thread] */
int mf_runtime_count(mf_runtime **runtime);
void mf_runtime_uncount(mf_runtime *runtime);

/* Call this in the child of a fork that has run no handlers. There is no runtime and no fiber any more. */
void mf_runtime_forget_after_fork(void);

/* The less loaded of two random carriers, or the preferred one (as in mr_fiber_options) unless its load is much
 * higher. One more fiber is counted in its load. [any thread] */
mf_carrier *mf_runtime_place(mf_runtime *runtime, unsigned preferred);

#endif
