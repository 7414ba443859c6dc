/*
 * http_settings.h - the settings that HTTP/2 and HTTP/3 have in common. Must not know: GHC, sockets, the clock,
 * libnghttp2, libnghttp3.
 */
#ifndef HTTP_SETTINGS_H
#define HTTP_SETTINGS_H

#include <stdint.h>

#include "http_limit.h"

#define HTTP_SERVER_NAME_MAX 255u

/* The limits of a connection, unless something else is said. */
typedef struct http_settings {
    uint32_t streams_max;   /* open requests; also the limit of running handlers, including those of reset streams */
    uint32_t fields_max;    /* fields of a request head; the parts of a cookie are one */
    uint32_t head_max;      /* bytes of a request head: names and values */
    uint32_t target_max;    /* bytes of :path */
    uint32_t stream_window; /* the first window of a stream: bytes that are sent and not read by the application */
    uint32_t connection_window; /* the first window of a connection */
    uint32_t window_max;        /* the limit of a connection's window; a stream's grows to half of it */
    uint32_t table_max;         /* bytes of the table for compressing heads; with QPACK, in each direction */
    uint32_t skipped_max;       /* bytes of a request's body that are read and dropped after the answer */
    http_allowances allowances;
    uint32_t allowed;            /* HTTP_ALLOW_* of http_parser.h */
    uint32_t server_name_length; /* 0: no server field */
    uint8_t server_name[HTTP_SERVER_NAME_MAX];
} http_settings;

#endif
