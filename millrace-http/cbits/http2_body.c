/* http2_body.c - the bytes of bodies that wait, in chunks. Must not know: GHC, sockets. */
#include <string.h>

#include "http2_internal.h"

/* The least capacity of a chunk if more bytes may follow, so that small pieces share one. */
#define SHARED 1024u

static http2_chunk *new_chunk(size_t capacity)
{
    http2_chunk *chunk = http_take(sizeof *chunk + capacity);
    if (chunk != NULL)
        *chunk = (http2_chunk){.capacity = (uint32_t)capacity};
    return chunk;
}

static void append(http2_queue *queue, http2_chunk *chunk)
{
    if (queue->last == NULL)
        queue->first = chunk;
    else
        queue->last->next = chunk;
    queue->last = chunk;
}

http2_chunk *http2_new_chunk(size_t capacity)
{
    return new_chunk(capacity);
}

uint8_t *http2_chunk_bytes(http2_chunk *chunk)
{
    return chunk->bytes;
}

void http2_free_chunk(http2_chunk *chunk)
{
    http_give(chunk);
}

void http2_queue_append_chunk(http2_queue *queue, http2_chunk *chunk)
{
    append(queue, chunk);
    queue->length += chunk->end - chunk->start;
}

int http2_queue_append(http2_queue *queue, const uint8_t *bytes, size_t length, http2_more more)
{
    http2_chunk *last = queue->last;
    if (last == NULL || last->capacity - last->end < length) {
        http2_chunk *chunk = new_chunk(more == HTTP2_MORE_FOLLOWS && length < SHARED ? SHARED : length);
        if (chunk == NULL)
            return -1;
        append(queue, chunk);
        last = chunk;
    }
    memcpy(last->bytes + last->end, bytes, length);
    last->end += (uint32_t)length;
    queue->length += length;
    return 0;
}

size_t http2_queue_take(http2_queue *queue, uint8_t *destination, size_t room)
{
    size_t taken = 0;
    while (queue->first != NULL && taken < room) {
        http2_chunk *chunk = queue->first;
        size_t count = chunk->end - chunk->start;
        if (count > room - taken)
            count = room - taken;
        memcpy(destination + taken, chunk->bytes + chunk->start, count);
        taken += count;
        chunk->start += (uint32_t)count;
        if (chunk->start == chunk->end) {
            queue->first = chunk->next;
            if (queue->first == NULL)
                queue->last = NULL;
            http_give(chunk);
        }
    }
    queue->length -= taken;
    return taken;
}

void http2_queue_cut(http2_queue *queue, uint64_t length)
{
    if (length >= queue->length)
        return;
    http2_queue dropped = {0};
    uint64_t left = length;
    http2_chunk *last = NULL;
    for (http2_chunk *chunk = queue->first; left > 0; chunk = chunk->next) {
        if (chunk->end - chunk->start > left)
            chunk->end = chunk->start + (uint32_t)left;
        left -= chunk->end - chunk->start;
        last = chunk;
    }
    dropped.first = last == NULL ? queue->first : last->next;
    http2_queue_clear(&dropped);
    if (last == NULL)
        queue->first = NULL;
    else
        last->next = NULL;
    queue->last = last;
    queue->length = length;
}

void http2_queue_clear(http2_queue *queue)
{
    http2_chunk *next = queue->first;
    while (next != NULL) {
        http2_chunk *chunk = next;
        next = chunk->next;
        http_give(chunk);
    }
    *queue = (http2_queue){0};
}
