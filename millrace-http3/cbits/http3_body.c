/* http3_body.c - the bytes of bodies that wait, or that may have to be sent again, in chunks. Must not know: GHC, sockets. */
#include <string.h>

#include "http3_internal.h"

/* The least capacity of a chunk if more bytes may follow, so that small pieces share one. */
#define SHARED 1024u

http3_chunk *http3_new_chunk(size_t capacity)
{
    http3_chunk *chunk = http_take(sizeof *chunk + capacity);
    if (chunk != NULL)
        *chunk = (http3_chunk){.capacity = (uint32_t)capacity};
    return chunk;
}

uint8_t *http3_chunk_bytes(http3_chunk *chunk)
{
    return chunk->bytes;
}

void http3_free_chunk(http3_chunk *chunk)
{
    http_give(chunk);
}

static void link_chunk(http3_queue *queue, http3_chunk *chunk)
{
    if (queue->last == NULL)
        queue->first = chunk;
    else
        queue->last->next = chunk;
    queue->last = chunk;
}

void http3_queue_append_chunk(http3_queue *queue, http3_chunk *chunk)
{
    link_chunk(queue, chunk);
    queue->length += chunk->end - chunk->start;
    queue->ungiven += chunk->end - chunk->start;
    if (queue->giving == NULL)
        queue->giving = chunk;
}

int http3_queue_append(http3_queue *queue, const uint8_t *bytes, size_t length, http3_more more)
{
    http3_chunk *last = queue->last;
    if (last == NULL || last->capacity - last->end < length) {
        http3_chunk *chunk = http3_new_chunk(more == HTTP3_MORE_FOLLOWS && length < SHARED ? SHARED : length);
        if (chunk == NULL)
            return -1;
        link_chunk(queue, chunk);
        last = chunk;
    }
    memcpy(last->bytes + last->end, bytes, length);
    last->end += (uint32_t)length;
    queue->length += length;
    queue->ungiven += length;
    if (queue->giving == NULL)
        queue->giving = last;
    return 0;
}

/* Frees the first chunk. */
static void shift(http3_queue *queue)
{
    http3_chunk *chunk = queue->first;
    queue->first = chunk->next;
    if (queue->first == NULL)
        queue->last = NULL;
    if (queue->giving == chunk)
        queue->giving = queue->first;
    http_give(chunk);
}

size_t http3_queue_take(http3_queue *queue, uint8_t *destination, size_t room)
{
    size_t taken = 0;
    while (queue->first != NULL && taken < room) {
        http3_chunk *chunk = queue->first;
        size_t count = chunk->end - chunk->start;
        if (count > room - taken)
            count = room - taken;
        memcpy(destination + taken, chunk->bytes + chunk->start, count);
        taken += count;
        chunk->start += (uint32_t)count;
        if (chunk->start == chunk->end)
            shift(queue);
    }
    queue->length -= taken;
    queue->ungiven -= taken;
    return taken;
}

size_t http3_queue_give(http3_queue *queue, nghttp3_vec *pieces, size_t count, uint64_t most)
{
    size_t used = 0;
    while (used < count && queue->giving != NULL && most > 0) {
        http3_chunk *chunk = queue->giving;
        uint64_t length = chunk->end - chunk->given;
        if (length > most)
            length = most;
        if (length > 0)
            pieces[used++] = (nghttp3_vec){chunk->bytes + chunk->given, length};
        chunk->given += (uint32_t)length;
        queue->ungiven -= length;
        most -= length;
        if (chunk->given == chunk->end)
            queue->giving = chunk->next;
    }
    return used;
}

void http3_queue_drop(http3_queue *queue, uint64_t length)
{
    queue->length -= length;
    while (length > 0) {
        http3_chunk *chunk = queue->first;
        uint64_t count = chunk->given - chunk->start;
        if (count > length)
            count = length;
        chunk->start += (uint32_t)count;
        length -= count;
        if (chunk->start == chunk->end)
            shift(queue);
    }
}

void http3_queue_cut(http3_queue *queue, uint64_t length)
{
    if (length >= queue->ungiven)
        return;
    uint64_t dropped = queue->ungiven - length;
    http3_chunk *last = NULL;
    /* The chunk in which the last byte to be kept is. Chunks before `giving` have only given bytes. */
    for (http3_chunk *chunk = queue->first; chunk != queue->giving; chunk = chunk->next)
        last = chunk;
    for (http3_chunk *chunk = queue->giving; chunk != NULL; chunk = chunk->next) {
        uint64_t here = chunk->end - chunk->given;
        if (here > length)
            here = length;
        if (chunk->given + here == chunk->start)
            break; /* nothing of it is kept */
        chunk->end = chunk->given + (uint32_t)here;
        length -= here;
        last = chunk;
        if (length == 0)
            break;
    }
    http3_chunk *rest = last == NULL ? queue->first : last->next;
    if (last == NULL)
        queue->first = NULL;
    else
        last->next = NULL;
    queue->last = last;
    while (rest != NULL) {
        http3_chunk *next = rest->next;
        http_give(rest);
        rest = next;
    }
    queue->length -= dropped;
    queue->ungiven -= dropped;
    if (queue->ungiven == 0)
        queue->giving = NULL;
}

void http3_queue_clear(http3_queue *queue)
{
    http3_chunk *next = queue->first;
    while (next != NULL) {
        http3_chunk *chunk = next;
        next = chunk->next;
        http_give(chunk);
    }
    *queue = (http3_queue){0};
}
