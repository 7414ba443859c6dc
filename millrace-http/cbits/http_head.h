/*
 * http_head.h - writes the head of a response straight into the buffer it is sent from.
 *
 * The server itself writes the framing and the options of the connection. So Content-Length, Transfer-Encoding and the
 * close and keep-alive options of Connection are noted and removed from the application's fields. An application cannot
 * inject lines: CR, LF and NUL in values and reason phrases become spaces, and a name that is not a token is refused.
 * Must not know: sockets, requests.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "http_names.h"

#define HTTP_HEAD_DATE   1u /* the application gave a Date */
#define HTTP_HEAD_SERVER 2u /* ... a Server */
#define HTTP_HEAD_CLOSE  4u /* ... Connection: close */

#define HTTP_HEAD_DROP_SERVER 1u /* option: leave out Server, even the application's */

typedef enum http_head_result {
    HTTP_HEAD_OK = 0,
    HTTP_HEAD_NO_ROOM = 1,
    HTTP_HEAD_BAD_NAME = 2,   /* not a token */
    HTTP_HEAD_BAD_CODING = 3, /* a Transfer-Encoding other than chunked */
    HTTP_HEAD_BAD_LENGTH = 4, /* Content-Length is not a number, or differs from an earlier one */
    HTTP_HEAD_BAD_STATUS = 5  /* not from 100 to 999 */
} http_head_result;

/* A field that the application supplies. */
typedef struct http_head_line {
    const uint8_t *name;
    size_t name_length;
    const uint8_t *value;
    size_t value_length;
} http_head_line;

typedef struct http_head {
    /* Input: what to write, and where. */
    uint8_t *at;
    uint8_t *limit; /* nothing is written at or beyond it */
    const uint8_t *reason;
    size_t reason_length;
    const http_head_line *lines_end; /* the lines lie before it, the last one first: lines_end[-1] is the first one */
    size_t line_count;
    const uint8_t *server_line; /* the Server field as it is sent, CR LF included */
    size_t server_line_length;
    uint32_t status;
    uint32_t options;

    /* Result: what was found in the fields. */
    int64_t content_length; /* given by the application; -1: none */
    uint32_t flags;
    uint32_t failed; /* the index of the field that was refused */
} http_head;

/*
 * Writes the status line, the fields, Date and Server, and moves `at` behind them. The framing follows with
 * http_put_framing. The version is the server's, not the client's (RFC 9110, section 6.2).
 */
http_head_result http_head_compose(http_head *head);

typedef enum http_framing {
    HTTP_FRAMING_NONE = 0,   /* no body, or one that ends with the connection */
    HTTP_FRAMING_LENGTH = 1, /* Content-Length */
    HTTP_FRAMING_CHUNKED = 2
} http_framing;

typedef enum http_connection_option {
    HTTP_CONNECTION_UNSAID = 0,
    HTTP_CONNECTION_CLOSE = 1,
    HTTP_CONNECTION_KEEP_ALIVE = 2
} http_connection_option;

#define HTTP_FRAMING_MAX 64u

/*
 * Writes the last lines of a head: Connection, the framing, and the empty line. Returns their length, at most
 * HTTP_FRAMING_MAX. They come last because the body's length is known only if the whole body has fitted into the
 * buffer.
 */
size_t http_put_framing(uint8_t *at, http_connection_option option, http_framing framing, uint64_t length);

#define HTTP_CHUNK_HEAD_LENGTH 10u /* eight digits, CR LF */

/* Writes the size line of a chunk of less than 4 GiB, always HTTP_CHUNK_HEAD_LENGTH bytes: it can be written after the
   data. */
void http_put_chunk_head(uint8_t *at, uint32_t length);

/* Writes the size line of a chunk of any length. Returns its length, at most 18 bytes. */
size_t http_put_chunk_size(uint8_t *at, uint64_t length);

/* Reads the value of a Content-Length field. `known` is the length that an earlier field gave, or negative; a second
 * one must give the same. */
http_head_result http_head_note_length(int64_t *known, const uint8_t *value, size_t length);

#endif
