/* http_random.c - from the system. */
#define _GNU_SOURCE /* getentropy */
#include "http_random.h"

#include <errno.h>
#include <unistd.h>

#ifdef __APPLE__
#include <sys/random.h>
#endif

int http_random_fill(uint8_t *destination, size_t length)
{
    return getentropy(destination, length) == 0 ? 0 : -errno;
}
