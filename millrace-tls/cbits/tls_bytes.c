/* tls_bytes.c - a queue of bytes in one piece of memory. */
#include "tls_bytes.h"

#include "millrace_check.h"

#include <stdlib.h>
#include <string.h>

size_t tls_bytes_count(const tls_bytes *bytes)
{
    MR_CHECK(bytes->start <= bytes->end && bytes->end <= bytes->capacity);
    return bytes->end - bytes->start;
}

/* Makes the memory large enough for `before` bytes before those in the queue and for `behind` bytes behind them. */
static bool reserve(tls_bytes *bytes, size_t before, size_t behind)
{
    if (bytes->start >= before && bytes->capacity - bytes->end >= behind)
        return true;
    size_t held = tls_bytes_count(bytes);
    size_t capacity = before + held + behind;
    capacity += capacity / 2;
    uint8_t *memory = malloc(capacity);
    if (!memory)
        return false;
    if (held > 0)
        memcpy(memory + before, bytes->memory + bytes->start, held);
    free(bytes->memory);
    *bytes = (tls_bytes){.memory = memory, .start = before, .end = before + held, .capacity = capacity};
    return true;
}

bool tls_bytes_append(tls_bytes *bytes, const uint8_t *from, size_t count)
{
    if (count == 0)
        return true;
    if (!reserve(bytes, 0, count))
        return false;
    memcpy(bytes->memory + bytes->end, from, count);
    bytes->end += count;
    return true;
}

bool tls_bytes_put_back(tls_bytes *bytes, const uint8_t *from, size_t count)
{
    if (count == 0)
        return true;
    if (!reserve(bytes, count, 0))
        return false;
    bytes->start -= count;
    memcpy(bytes->memory + bytes->start, from, count);
    return true;
}

size_t tls_bytes_take(tls_bytes *bytes, uint8_t *to, size_t capacity)
{
    size_t held = tls_bytes_count(bytes);
    size_t count = held < capacity ? held : capacity;
    if (count > 0)
        memcpy(to, bytes->memory + bytes->start, count);
    bytes->start += count;
    if (count == held)
        tls_bytes_clear(bytes);
    return count;
}

void tls_bytes_clear(tls_bytes *bytes)
{
    free(bytes->memory);
    *bytes = (tls_bytes){0};
}
