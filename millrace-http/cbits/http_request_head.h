/*
 * http_request_head.h - the head of a request of HTTP/2 or HTTP/3, built field by field as a library decodes it, in
 * the form that http_parser.c gives those of HTTP/1: a table of fields and a text. Must not know: GHC, sockets,
 * libnghttp2, libnghttp3.
 */
#ifndef HTTP_REQUEST_HEAD_H
#define HTTP_REQUEST_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "http_parser.h"

/* A head, as Haskell reads it. Offsets are in the text. */
typedef struct http_request_head {
    uint32_t field_count, text_length;
    uint32_t method_offset, method_length, path_offset, path_length, query_offset, query_length;
    uint32_t protocol_offset, protocol_length; /* of an extended CONNECT (RFC 8441, RFC 9220) */
    uint16_t host, range, referer, user_agent; /* index + 1 of the field; 0: absent */
    uint32_t flags;                            /* HTTP_REQUEST_* */
    int32_t error;                             /* http_error: why the request is refused; 0: it is valid */
    int64_t content_length;                    /* -1: none given */
    uint8_t method;                            /* http_method */
} http_request_head;

/* The memory of a request's fields, from http_alloc. */
typedef struct http_request_fields {
    http_field *head;  /* the fields of the head, and the text behind them */
    uint8_t *trailers; /* as rows */
    size_t trailers_length;
    uint32_t trailers_count;
} http_request_fields;

typedef struct http_head_limits {
    uint32_t fields_max; /* fields; the parts of a cookie are one */
    uint32_t head_max;   /* bytes of names and values */
    uint32_t target_max; /* bytes of :path */
    uint32_t allowed;    /* HTTP_ALLOW_* */
} http_head_limits;

/* A client of HTTP/2 or HTTP/3 can name a large field by one byte (RFC 7541, section 6.1; RFC 9204, section 4.5.2). So
 * the heads of all unfinished requests of a connection have a common limit: this many heads of the largest size, or a
 * hundred of a browser's. */
#define HTTP_HEADS_AT_A_TIME 16u

/* What a field takes beside its bytes while its request is served: in this table, and as a name and a value in the
   application's list. */
#define HTTP_FIELD_COST 256u

/* The memory of a head that was built. */
static inline uint64_t http_head_size(const http_request_head *head)
{
    return (uint64_t)HTTP_FIELD_COST * head->field_count + head->text_length;
}

/* What is being built. */
typedef enum http_section { HTTP_SECTION_HEAD, HTTP_SECTION_TRAILERS } http_section;

/* Frees the head or the trailers of a request that is refused. */
void http_drop_section(http_request_fields *fields, http_section section);

/* A head, or trailers, while it arrives. */
typedef struct http_building {
    void *owner; /* the stream it belongs to; NULL: nothing is being built */
    http_request_head *head;
    http_request_fields *result;
    http_head_limits limits;
    http_field *fields;
    uint8_t *text;
    uint8_t *cookie;                                                           /* the parts of the cookie, joined */
    uint32_t cookie_length, cookie_capacity, cookie_row;                       /* cookie_row: index + 1 of its field */
    uint32_t field_count, text_length, text_capacity, counted, parts, decoded; /* parts: further ones of the cookie */
    uint32_t authority_offset, authority_length, scheme_offset, scheme_length;
    int32_t error; /* http_error */
    http_section section;
    uint8_t host_added;
} http_building;

/* The memory of a section that arrives. */
static inline uint64_t http_building_size(const http_building *building)
{
    return (uint64_t)HTTP_FIELD_COST * building->field_count + building->text_length + building->cookie_length;
}

/* Begins with a section. *building is NULL at first, and may be used again for the next section. Returns -1 without
   memory. */
int http_building_begin(http_building **building, const http_head_limits *limits, http_section section, void *owner,
                        http_request_head *head, http_request_fields *result);

/* Adds a field. Returns -1 if the section is much too long, or without memory. */
int http_building_field(http_building *building, const uint8_t *name, size_t name_length, const uint8_t *value,
                        size_t value_length);

/* How the request came: what it says of its scheme is compared with that. */
typedef enum http_security { HTTP_CLEAR_TEXT = 0, HTTP_SECURE = 1 } http_security;

/* Ends the section, and stores the result. Returns 0; -1 without memory; 1 if trailers are refused. */
int http_building_end(http_building *building, http_security security);

/* Frees the memory for building. */
void http_building_drop(http_building **building);

#endif
