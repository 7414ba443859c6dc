/*
 * cleanups.h: the cleanups of a thread, which libc keeps in a list, through records on the stack. Fibers that park in a call
 * that has one would take each other's records off that list. So a fiber leaves it as it was when it parks.
 */
#ifndef MILLRACE_FIBER_INTERPOSE_CLEANUPS_H
#define MILLRACE_FIBER_INTERPOSE_CLEANUPS_H

#include <pthread.h>

typedef struct _pthread_cleanup_buffer mf_cleanup;

/* Makes `first` the first one; returns the one that was. */
mf_cleanup *mf_cleanups_exchange(mf_cleanup *first);

#endif
