/* http_random.h - unpredictable random bytes. Must not know: requests, responses. */
#ifndef HTTP_RANDOM_H
#define HTTP_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Writes at most 256 random bytes. Needs no descriptor and no file system. Returns 0 or a negative errno. */
int http_random_fill(uint8_t *destination, size_t length);

#endif
