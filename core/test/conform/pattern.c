/* pattern.c: the stream of bytes that byte-exact tests send; every byte differs from the bytes next to it. */
#include "conform.h"

void fill_pattern(void *buffer, uint64_t position, size_t size)
{
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < size; i++)
        bytes[i] = pattern_at(position + i);
}

void check_pattern(const void *buffer, uint64_t position, size_t size)
{
    const unsigned char *bytes = buffer;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != pattern_at(position + i))
            FAIL("byte %llu of the stream is 0x%02x instead of 0x%02x", (unsigned long long)(position + i), bytes[i],
                 pattern_at(position + i));
}
