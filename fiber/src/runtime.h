/*
 * runtime.h: the process's carriers, which are started once and stopped once. The child of a fork has none.
 */
#ifndef MILLRACE_FIBER_RUNTIME_H
#define MILLRACE_FIBER_RUNTIME_H

#include "carrier.h"

struct mf_runtime {
    mr_group *group;
    mf_carrier *carriers;
    unsigned count;
    size_t stack_size_bytes;
    atomic_uint fibers; /* the number of fibers that have not ended or are about to begin */
};

/* Counts one more fiber and finds the runtime, which exists until mf_runtime_uncount. Starts it with default options if
 * there is none. Returns 0 or a negative errno. [any thread] */
int mf_runtime_count(mf_runtime **runtime);
void mf_runtime_uncount(mf_runtime *runtime);

/* Call this in the child of a fork that has run no handlers. It forgets the runtime and all fibers. */
void mf_runtime_forget_after_fork(void);

/* Chooses the less loaded of two random carriers, or the preferred one (as in mr_fiber_options) unless its load is much
 * higher. Adds one fiber to its load. [any thread] */
mf_carrier *mf_runtime_choose_carrier(mf_runtime *runtime, unsigned preferred);

#endif
