/*
 * call_once.h: the function of C++'s std::call_once, for a fiber that parks in it. libstdc++ stores it in thread-local
 * variables, where the initializer that it passes to pthread_once finds it. If a fiber waits in between, other fibers
 * of its carrier may overwrite these variables. So the fiber saves and restores them.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_CALLABLE_H
#define MILLRACE_FIBER_INTERPOSE_CALLABLE_H

typedef struct mf_callable {
    void *callable;
    void *call;
} mf_callable;

/* Read and write the variables of this thread. Do nothing if no libstdc++ is loaded. */
mf_callable mf_callable_get(void);
void mf_callable_put(mf_callable saved);

#endif
