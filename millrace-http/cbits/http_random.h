/* http_random.h - bytes that nobody can foretell. Must not know: requests, responses. */
#ifndef HTTP_RANDOM_H
#define HTTP_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* At most 256 bytes. Needs no descriptor and no file system. 0, or a negative errno. */
int http_random_fill(uint8_t *destination, size_t length);

#endif
