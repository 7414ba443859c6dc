/* system_faults.c - the system's functions that only the C files of this package call, where calls fail (fault.h). */
#define _GNU_SOURCE
#include "fault/fault.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/file.h>
#include <unistd.h>

int fault_open(const char *path, int flags, ...);
int fault_open(const char *path, int flags, ...)
{
    if (!fault_is_due("open", "EINTR"))
        return open(path, flags);
    errno = EINTR;
    return -1;
}

int fault_flock(int number, int what);
int fault_flock(int number, int what)
{
    if (!fault_is_due("flock", "ENOLCK"))
        return flock(number, what);
    errno = ENOLCK;
    return -1;
}

int fault_getentropy(void *bytes, size_t size);
int fault_getentropy(void *bytes, size_t size)
{
    if (!fault_is_due("getentropy", "EIO"))
        return getentropy(bytes, size);
    errno = EIO;
    return -1;
}

/* These return their error. */
int fault_pthread_key_create(pthread_key_t *key, void (*destroy)(void *));
int fault_pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
    return fault_is_due("pthread_key_create", "EAGAIN") ? EAGAIN : pthread_key_create(key, destroy);
}

int fault_pthread_setspecific(pthread_key_t key, const void *value);
int fault_pthread_setspecific(pthread_key_t key, const void *value)
{
    return fault_is_due("pthread_setspecific", "ENOMEM") ? ENOMEM : pthread_setspecific(key, value);
}
