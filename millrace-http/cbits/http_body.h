/*
 * http_body.h - the bytes of a body that wait, in pieces: received and not read, or written and not sent. Over HTTP/3
 * they also wait after they were sent, because they may have to be sent again. Must not know: GHC, sockets.
 */
#ifndef HTTP_BODY_H
#define HTTP_BODY_H

#include <stddef.h>
#include <stdint.h>

/* The size of the pieces in which files are read. */
#define HTTP_FILE_PIECE 32768u

typedef struct http_piece {
    struct http_piece *next;
    uint32_t start, end, capacity;
    uint32_t given; /* the bytes between start and this were given out (http_body_give) */
    uint8_t bytes[];
} http_piece;

typedef struct http_body {
    http_piece *first, *last;
    http_piece *giving; /* the first piece with bytes that were not given out; NULL: there are none */
    uint64_t length;    /* all bytes */
    uint64_t ungiven;
} http_body;

/* Memory for a piece. `capacity`: at most 1 MiB. NULL without memory. */
http_piece *http_new_piece(size_t capacity);
uint8_t *http_piece_bytes(http_piece *piece);
void http_free_piece(http_piece *piece);

/* Adds the first `length` bytes of a piece, and takes the piece. */
void http_body_append_piece(http_body *body, http_piece *piece, size_t length);

/* Whether more bytes may follow, so that the piece should be larger than needed now. */
typedef enum http_more { HTTP_MORE_FOLLOWS, HTTP_NOTHING_FOLLOWS } http_more;

/* Copies bytes to the end. Returns 0, or -1 without memory. */
int http_body_append(http_body *body, const uint8_t *bytes, size_t length, http_more more);

/* Copies bytes from the front, and drops them. Nothing of the body may have been given out. */
size_t http_body_take(http_body *body, uint8_t *destination, size_t capacity);

/* Gives out the next bytes, at most `most`: stores where they are, and returns how many are there; 0: there are none.
 * They stay in the body until http_body_drop. */
size_t http_body_give(http_body *body, const uint8_t **bytes, uint64_t most);

/* Drops bytes from the front, which were given out. */
void http_body_drop(http_body *body, uint64_t length);

/* Drops all bytes that were not given out but the first `length` of them. */
void http_body_cut(http_body *body, uint64_t length);

void http_body_clear(http_body *body);

#endif
