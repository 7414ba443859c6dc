/* stream.c: the bytes of one direction of a connection. Must not know: sockets, the clock. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { RING_SMALLEST = 256 };

uint32_t mr_stream_free_space(const mr_stream *stream)
{
    return stream->used < stream->capacity ? stream->capacity - stream->used : 0;
}

/* Copies bytes out of the ring, beginning `offset` bytes after its start. */
static void copy_out(const mr_stream *stream, uint32_t offset, unsigned char *target, uint32_t size)
{
    uint32_t begin = (stream->first + offset) % stream->size;
    uint32_t to_the_end = stream->size - begin;
    uint32_t straight = size < to_the_end ? size : to_the_end;
    memcpy(target, stream->bytes + begin, straight);
    memcpy(target + straight, stream->bytes, size - straight);
}

static bool reserve_ring(mr_stream *stream, uint32_t wanted)
{
    uint32_t size = stream->size ? stream->size : RING_SMALLEST;
    if (wanted <= stream->size)
        return true;
    while (size < wanted)
        size *= 2;
    unsigned char *bytes = malloc(size);
    if (!bytes)
        return false;
    if (stream->size)
        copy_out(stream, 0, bytes, stream->used);
    free(stream->bytes);
    stream->bytes = bytes;
    stream->size = size;
    stream->first = 0;
    return true;
}

bool mr_stream_append(mr_stream *stream, const unsigned char *bytes, uint32_t size)
{
    if (!reserve_ring(stream, stream->used + size))
        return false;
    uint32_t begin = (stream->first + stream->used) % stream->size;
    uint32_t to_the_end = stream->size - begin;
    uint32_t straight = size < to_the_end ? size : to_the_end;
    memcpy(stream->bytes + begin, bytes, straight);
    memcpy(stream->bytes, bytes + straight, size - straight);
    stream->used += size;
    return true;
}

static void free_ring(mr_stream *stream)
{
    free(stream->bytes);
    stream->bytes = NULL;
    stream->size = stream->first = 0;
}

uint32_t mr_stream_take(mr_stream *stream, unsigned char *buffer, uint32_t size)
{
    if (size > stream->arrived)
        size = stream->arrived;
    if (size == 0)
        return 0;
    copy_out(stream, 0, buffer, size);
    stream->first = (stream->first + size) % stream->size;
    stream->used -= size;
    stream->arrived -= size;
    if (stream->used == 0)
        free_ring(stream);
    return size;
}

void mr_stream_clear(mr_stream *stream)
{
    for (mr_segment *segment = stream->on_its_way, *next; segment; segment = next) {
        next = segment->next;
        free(segment);
    }
    free_ring(stream);
    stream->on_its_way = stream->last_on_its_way = NULL;
    stream->used = stream->arrived = 0;
}
