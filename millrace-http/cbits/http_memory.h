/* http_memory.h - like malloc, calloc and free, for memory that lives as long as a request. Must not know: GHC, sockets. */
#ifndef HTTP_MEMORY_H
#define HTTP_MEMORY_H

#include <stddef.h>

void *http_take(size_t size);
void *http_take_zeroed(size_t size);
void http_give(void *memory);

#endif
