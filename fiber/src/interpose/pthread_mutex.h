/* pthread_mutex.h: locks a mutex for a condition variable. */
#ifndef MILLRACE_FIBER_INTERPOSE_PTHREAD_MUTEX_H
#define MILLRACE_FIBER_INTERPOSE_PTHREAD_MUTEX_H

#include <pthread.h>

/* pthread_mutex_lock for the running fiber. Reports show `call_site` as the address where the mutex was locked. */
int mf_mutex_lock(pthread_mutex_t *mutex, const void *call_site);

#endif
