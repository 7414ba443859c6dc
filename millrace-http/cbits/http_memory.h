/* http_memory.h - like malloc, calloc and free, for memory that lives as long as a request. Must not know: GHC,
   sockets. */
#ifndef HTTP_MEMORY_H
#define HTTP_MEMORY_H

#include <stddef.h>

/* The size of memory for what is sent at once: five DATA frames of the largest size. */
#define HTTP_OUTPUT_SIZE 81920u

void *http_alloc(size_t size);
void *http_alloc_zeroed(size_t size);
void http_free(void *memory);

/* Memory of twice the size, or the first, for what must grow even where memory is short: a few kilobytes are kept for
 * it. NULL if these are used up, too. */
void *http_grow(void *memory, size_t size);
void http_free_grown(void *memory); /* or what http_alloc has returned; may be NULL */

#endif
