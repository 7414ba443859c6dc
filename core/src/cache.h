/*
 * cache.h: what of a file the system has in its memory, the page cache. Must not know: loops, sockets.
 */
#ifndef MILLRACE_CACHE_H
#define MILLRACE_CACHE_H

#include "millrace.h"

/* mr_file_cache_state, which also adds its system calls to a count. */
mr_cache_state mr_cache_look(int file, uint64_t offset, uint64_t length, unsigned *calls);

#endif
