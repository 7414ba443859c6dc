/*
 * http_response_fields.h - the fields of responses and trailers in the form in which HTTP/2 and HTTP/3 send them.
 * Must not know: GHC, sockets, libnghttp2, libnghttp3.
 */
#ifndef HTTP_RESPONSE_FIELDS_H
#define HTTP_RESPONSE_FIELDS_H

#include <stddef.h>
#include <stdint.h>

/* The limit of a response head, in bytes. */
#define HTTP_RESPONSE_HEAD_MAX 1048576u

/*
 * Fields in rows: each has the lengths of name and value, 32 bits each, and their bytes. Names must be tokens; they
 * are sent in lower case. Fields that HTTP/2 and HTTP/3 forbid, such as Connection, are left out.
 */
typedef struct http_rows {
    const uint8_t *bytes;
    size_t length;
    uint32_t count;
} http_rows;

#define HTTP_LENGTH_NONE    (-1) /* no content-length, unless the fields give one */
#define HTTP_LENGTH_UNKNOWN (-2) /* no content-length, even if the fields give one */

/* A field as nghttp2_nv and nghttp3_nv have it: both have this layout, which the files that use them check. */
typedef struct http_nv {
    const uint8_t *name, *value;
    size_t name_length, value_length;
    uint8_t flags;
} http_nv;

#define HTTP_NV_IS_LASTING 6u /* the library need not copy the name and the value */

/* Fields in the form of the libraries. The names and values are in the same memory, behind the table; http_free frees
   it. */
typedef struct http_block {
    uint32_t count;
    http_nv fields[];
} http_block;

/* The value of the field Server. */
typedef struct http_server_name {
    const uint8_t *bytes;
    size_t length; /* 0: no field, not even the application's */
} http_server_name;

/*
 * Makes the fields of a response's head. `length` is the content-length, or one of the constants above. Stores in
 * *given the content-length in the fields, -1 if there is none. Returns an http_head_result.
 */
int http_block_make(http_block **block, http_server_name server, int status, const http_rows *fields, int64_t length,
                    int64_t *given);

/* Makes the fields of an interim response, or of trailers (a status of 0). Returns an http_head_result. */
int http_block_make_plain(http_block **block, int status, const http_rows *fields);

#endif
