/*
 * callable.h: the function of C++'s std::call_once. libstdc++ stores it in thread-local variables, where the initializer
 * that it passes to pthread_once finds it. If a fiber waits in between, other fibers of its carrier may overwrite these
 * variables. So the fiber saves and restores them.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_CALLABLE_H
#define MILLRACE_FIBER_INTERPOSE_CALLABLE_H

typedef struct mf_callable {
    void *callable;
    void *call;
} mf_callable;

/* Reads and writes the variables of this thread. Does nothing if no libstdc++ is loaded. */
mf_callable mf_callable_get(void);
void mf_callable_put(mf_callable put_down);

#endif
