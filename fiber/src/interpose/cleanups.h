/*
 * cleanups.h: the cleanup handlers of a thread. libc keeps them in a list of records on the stack. Fibers of one carrier
 * share the list. If they parked inside calls that have a record, they would remove each other's. So a fiber must leave the
 * list as it found it whenever it parks.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_CLEANUPS_H
#define MILLRACE_FIBER_INTERPOSE_CLEANUPS_H

#include <pthread.h>

typedef struct _pthread_cleanup_buffer mf_cleanup;

/* Makes `first` the first record; returns the one that was first before. */
mf_cleanup *mf_cleanups_exchange(mf_cleanup *first);

#endif
