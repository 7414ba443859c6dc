/* http_body.c - see http_body.h. Must not know: GHC, sockets. */
#include "http_body.h"

#include <string.h>

#include "http_memory.h"

/* The least capacity of a piece if more bytes may follow, so that small pieces share one. */
#define SHARED 1024u

http_piece *http_new_piece(size_t capacity)
{
    http_piece *piece = http_alloc(sizeof *piece + capacity);
    if (piece != NULL)
        *piece = (http_piece){.capacity = (uint32_t)capacity};
    return piece;
}

uint8_t *http_piece_bytes(http_piece *piece)
{
    return piece->bytes;
}

void http_free_piece(http_piece *piece)
{
    http_free(piece);
}

static void link_piece(http_body *body, http_piece *piece)
{
    if (body->last == NULL)
        body->first = piece;
    else
        body->last->next = piece;
    body->last = piece;
}

void http_body_append_piece(http_body *body, http_piece *piece, size_t length)
{
    piece->end = (uint32_t)length;
    link_piece(body, piece);
    body->length += length;
    body->ungiven += length;
    if (body->giving == NULL)
        body->giving = piece;
}

int http_body_append(http_body *body, const uint8_t *bytes, size_t length, http_more more)
{
    http_piece *last = body->last;
    if (last == NULL || last->capacity - last->end < length) {
        http_piece *piece = http_new_piece(more == HTTP_MORE_FOLLOWS && length < SHARED ? SHARED : length);
        if (piece == NULL)
            return -1;
        link_piece(body, piece);
        last = piece;
    }
    memcpy(last->bytes + last->end, bytes, length);
    last->end += (uint32_t)length;
    body->length += length;
    body->ungiven += length;
    if (body->giving == NULL)
        body->giving = last;
    return 0;
}

/* Frees the first piece. */
static void shift(http_body *body)
{
    http_piece *piece = body->first;
    body->first = piece->next;
    if (body->first == NULL)
        body->last = NULL;
    if (body->giving == piece)
        body->giving = body->first;
    http_free(piece);
}

size_t http_body_take(http_body *body, uint8_t *destination, size_t capacity)
{
    size_t taken = 0;
    while (body->first != NULL && taken < capacity) {
        http_piece *piece = body->first;
        size_t count = piece->end - piece->start;
        if (count > capacity - taken)
            count = capacity - taken;
        memcpy(destination + taken, piece->bytes + piece->start, count);
        taken += count;
        piece->start += (uint32_t)count;
        piece->given = piece->start;
        if (piece->start == piece->end)
            shift(body);
    }
    body->length -= taken;
    body->ungiven -= taken;
    return taken;
}

size_t http_body_give(http_body *body, const uint8_t **bytes, uint64_t most)
{
    while (body->giving != NULL && body->giving->given == body->giving->end)
        body->giving = body->giving->next;
    http_piece *piece = body->giving;
    if (piece == NULL)
        return 0;
    uint64_t length = piece->end - piece->given;
    if (length > most)
        length = most;
    *bytes = piece->bytes + piece->given;
    piece->given += (uint32_t)length;
    body->ungiven -= length;
    if (piece->given == piece->end)
        body->giving = piece->next;
    return length;
}

void http_body_drop(http_body *body, uint64_t length)
{
    body->length -= length;
    while (length > 0) {
        http_piece *piece = body->first;
        uint64_t count = piece->given - piece->start;
        if (count > length)
            count = length;
        piece->start += (uint32_t)count;
        length -= count;
        if (piece->start == piece->end)
            shift(body);
    }
}

void http_body_cut(http_body *body, uint64_t length)
{
    if (length >= body->ungiven)
        return;
    uint64_t dropped = body->ungiven - length;
    http_piece *last = NULL;
    /* The piece in which the last byte to be kept is. Pieces before `giving` have only given bytes. */
    for (http_piece *piece = body->first; piece != body->giving; piece = piece->next)
        last = piece;
    for (http_piece *piece = body->giving; piece != NULL; piece = piece->next) {
        uint64_t here = piece->end - piece->given;
        if (here > length)
            here = length;
        if (piece->given + here == piece->start)
            break; /* nothing of it is kept */
        piece->end = piece->given + (uint32_t)here;
        length -= here;
        last = piece;
        if (length == 0)
            break;
    }
    http_piece *rest = last == NULL ? body->first : last->next;
    if (last == NULL)
        body->first = NULL;
    else
        last->next = NULL;
    body->last = last;
    while (rest != NULL) {
        http_piece *next = rest->next;
        http_free(rest);
        rest = next;
    }
    body->length -= dropped;
    body->ungiven -= dropped;
    if (body->ungiven == 0)
        body->giving = NULL;
}

void http_body_clear(http_body *body)
{
    http_piece *next = body->first;
    while (next != NULL) {
        http_piece *piece = next;
        next = piece->next;
        http_free(piece);
    }
    *body = (http_body){0};
}
