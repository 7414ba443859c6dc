/*
 * thread_stacks.c - the stacks of the program's OS threads have 1 MB of address space. Must not know: GHC.
 *
 * Without this each has 8 MB (`ulimit -s`), and a limit of memory (`ulimit -d`, LimitDATA=) counts all of it, although
 * a thread uses a few pages. Haskell's stacks are elsewhere: here run the C libraries, of which the resolver of names
 * needs most, some 70 KB. Threads begin with the run-time system, so this must run before it, and belongs to the
 * executable (see standard_descriptors.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for pthread_setattr_default_np */
#endif

#include <pthread.h>

#ifdef __GLIBC__
enum { STACK_BYTES = 1 << 20 };

__attribute__((constructor)) static void limit_thread_stacks(void)
{
    pthread_attr_t attributes;
    size_t size;
    if (pthread_getattr_default_np(&attributes) != 0)
        return;
    if (pthread_attr_getstacksize(&attributes, &size) == 0 && size > STACK_BYTES &&
        pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
        (void)pthread_setattr_default_np(&attributes); /* otherwise they stay as they are */
    pthread_attr_destroy(&attributes);
}
#endif
