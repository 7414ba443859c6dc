/*
 * cleanup_handlers.h: the cleanup handlers of a thread. libc keeps them in a list of records on the stack, which all
 * fibers of a carrier share. Fibers that park inside calls with such a record would remove each other's records. So a
 * fiber must restore the list before it parks.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_CLEANUPS_H
#define MILLRACE_FIBER_INTERPOSE_CLEANUPS_H

#include <pthread.h>

typedef struct _pthread_cleanup_buffer mf_cleanup;

/* Makes `first` the first record; returns the one that was first before. */
mf_cleanup *mf_cleanups_exchange(mf_cleanup *first);

#endif
