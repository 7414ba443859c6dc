/* pthread_mutex.h: what a condition variable needs of mutexes. */
#ifndef MILLRACE_FIBER_INTERPOSE_PTHREAD_MUTEX_H
#define MILLRACE_FIBER_INTERPOSE_PTHREAD_MUTEX_H

#include <pthread.h>

/* pthread_mutex_lock for the running fiber. `place` is where the reports say that the mutex was locked. */
int mf_mutex_lock(pthread_mutex_t *mutex, const void *place);

#endif
