/*
 * callable.h: what is to be called once. C++'s std::call_once (libstdc++'s) puts it down in variables of its thread, for the
 * initializer that it gives to pthread_once; a fiber that waits in between finds there what others of its carrier put down.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_CALLABLE_H
#define MILLRACE_FIBER_INTERPOSE_CALLABLE_H

typedef struct mf_callable {
    void *callable;
    void *call;
} mf_callable;

/* Of this thread. Without a libstdc++ that is loaded: nothing. */
mf_callable mf_callable_get(void);
void mf_callable_put(mf_callable put_down);

#endif
