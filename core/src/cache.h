/*
 * cache.h: whether bytes of a file are in the page cache. Must not know: loops, sockets.
 */
#ifndef MILLRACE_CACHE_H
#define MILLRACE_CACHE_H

#include "millrace.h"

/* Does what mr_file_cache_state does, and adds the number of its system calls to *calls. */
mr_cache_state mr_cache_probe(int file, uint64_t offset, uint64_t length, unsigned *calls);

#endif
