/*
 * http_parser.h - the head of an HTTP/1.x request, parsed strictly (RFC 9112) in one pass, without allocating.
 *
 * The parser reads bytes that its owner keeps in one piece. When more bytes have arrived, it is called again and
 * continues where it stopped. Its result depends only on the bytes and not on how they were split. All offsets are
 * relative to the first byte of the head, so the owner may move the bytes between two calls. Must not know: sockets,
 * chunks, responses.
 */
#ifndef HTTP_PARSER_H
#define HTTP_PARSER_H

#include <stddef.h>
#include <stdint.h>

#include "http_error.h"
#include "http_names.h"

/* X(NAME, "name"): methods known by number. */
#define HTTP_METHODS(X)   \
    X(GET, "GET")         \
    X(HEAD, "HEAD")       \
    X(POST, "POST")       \
    X(PUT, "PUT")         \
    X(DELETE, "DELETE")   \
    X(OPTIONS, "OPTIONS") \
    X(CONNECT, "CONNECT") \
    X(TRACE, "TRACE")     \
    X(PATCH, "PATCH")

typedef enum http_method {
    HTTP_METHOD_OTHER = 0,
#define HTTP_METHOD_ENUM(name, text) HTTP_METHOD_##name,
    HTTP_METHODS(HTTP_METHOD_ENUM)
#undef HTTP_METHOD_ENUM
} http_method;

/* The longest name of a field. */
#define HTTP_FIELD_NAME_MAX UINT16_MAX

/* One field line. The value has no blanks around it. */
typedef struct http_field {
    uint32_t name_offset;
    uint32_t value_offset;
    uint32_t value_length;
    uint16_t name_length;
    uint16_t name; /* http_name */
} http_field;

#define HTTP_METHOD_LENGTH_MAX 32u

#define HTTP_REQUEST_KEEP_ALIVE      1u  /* The client wants the connection to stay. */
#define HTTP_REQUEST_CHUNKED         2u  /* The body is chunked. */
#define HTTP_REQUEST_EXPECT_CONTINUE 4u  /* The client expects 100-continue, and its version allows sending it. */
#define HTTP_REQUEST_EXPECT_OTHER    8u  /* The client expects something else: the answer is 417. */
#define HTTP_REQUEST_VERSION_1_1     16u /* HTTP/1.1 or a later 1.x; else 1.0. */
#define HTTP_REQUEST_HTTPS           32u /* The target is an https URI in absolute form. */

/*
 * Deviations from the RFC that a parser may allow. None of them affects how the end of a message is found. The first
 * two are about the ends of lines. After a head that has one of them the connection is closed, because a proxy that
 * reads lines differently might have passed a second request in it.
 */
#define HTTP_ALLOW_BARE_LF   1u /* LF alone ends a line of a head: RFC 9112, section 2.2 */
#define HTTP_ALLOW_FOLDING   2u /* a value continues on a line that begins with a blank: RFC 9112, section 5.2 */
#define HTTP_ALLOW_NO_HOST   4u /* HTTP/1.1 without Host: RFC 9112, section 3.2 */
#define HTTP_ALLOW_NON_ASCII 8u /* bytes beyond ASCII in a target: RFC 9112, section 3.2 */

typedef struct http_parser {
    /* Set by http_parser_init. */
    http_field *fields;
    uint32_t fields_max;
    uint32_t head_max;     /* bytes of the whole head */
    uint32_t target_max;   /* bytes of the request target */
    uint32_t allowed;      /* HTTP_ALLOW_* */
    uint32_t target_bytes; /* classes of bytes that a target may contain */

    /* Progress. */
    uint32_t scanned;
    uint32_t mark;
    uint8_t state;
    uint8_t close_seen, keep_alive_seen, host_count, codings_other, codings_chunked, codings_last_chunked, coding_lines;
    uint8_t absolute_form;
    uint8_t foldable, folded, relaxed;
    uint32_t authority_offset, authority_length;

    /* Result: valid once http_parser_run has returned a length. */
    uint32_t method_offset, method_length;
    uint32_t path_offset, path_length;   /* without scheme and authority */
    uint32_t query_offset, query_length; /* from the "?" on */
    uint32_t field_count;
    uint32_t flags;         /* HTTP_REQUEST_* */
    int64_t content_length; /* -1: none given */
    uint8_t method;         /* http_method */
    uint8_t major, minor;
    /* For some names, the index + 1 of the first field with it; 0: absent. */
    uint16_t host, range, referer, user_agent;
} http_parser;

/* Initialises a parser with limits and allowed deviations (HTTP_ALLOW_*). `fields` belongs to the caller. */
void http_parser_init(http_parser *parser, http_field *fields, uint32_t fields_max, uint32_t head_max,
                      uint32_t target_max, uint32_t allowed);

/* Resets everything except the limits, for the next head. */
void http_parser_reset(http_parser *parser);

/*
 * Parses a head, of which `length` bytes have arrived. Returns the length of the head (> 0), including the empty line;
 * 0 if it is not complete yet; or an http_error. Reads each byte once over all calls, and none beyond `length`.
 */
int64_t http_parser_run(http_parser *parser, const uint8_t *head, size_t length);

/* True if only empty lines have arrived. */
int http_parser_is_idle(const http_parser *parser);

/* Bytes that http_parser_copy needs for a head of this length: the fields first, then the text. */
size_t http_parser_copy_size(const http_parser *parser, size_t head_length);

/* Copies the fields and the text of a complete head; line ends within values become spaces. `destination` must be
 * aligned for http_field. */
void http_parser_copy(const http_parser *parser, const uint8_t *head, size_t head_length, uint8_t *destination);

#endif
