/* http_random.c - from the system. */
#define _CRT_RAND_S /* rand_s */
#include <stdlib.h>

#include "http_random.h"

#include <errno.h>
#include <string.h>

int http_random_fill(uint8_t *destination, size_t length)
{
    while (length > 0) {
        unsigned int value;
        if (rand_s(&value) != 0)
            return -EIO;
        size_t count = length < sizeof value ? length : sizeof value;
        memcpy(destination, &value, count);
        destination += count;
        length -= count;
    }
    return 0;
}
