/*
 * malloc_arenas.c - malloc has no more arenas than there are processors. Must not know: GHC.
 *
 * glibc would give nearly each OS thread an arena of its own. What has been freed in one is of no use in the others,
 * and a limit of memory (`ulimit -d`, LimitDATA=) counts it. GHC changes the threads in which it runs, most of all on a
 * busy machine: then connections that came one after the other took memory from one arena after the other. In the
 * environment MALLOC_ARENA_MAX and GLIBC_TUNABLES have precedence. Threads begin with the run-time system, so this must
 * run before it, and belongs to the executable (see standard_descriptors.c).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for sched_getaffinity */
#endif

#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#include <sched.h>

__attribute__((constructor)) static void limit_malloc_arenas(void)
{
    const char *tunables = getenv("GLIBC_TUNABLES");
    if (getenv("MALLOC_ARENA_MAX") || (tunables && strstr(tunables, "arena_max")))
        return;
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) == 0)
        (void)mallopt(M_ARENA_MAX, CPU_COUNT(&usable));
}
#endif
