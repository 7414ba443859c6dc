/*
 * http2_client_internal.h - what the files of the HTTP/2 client share: the records of a connection and of a stream.
 * Must not know: GHC, sockets, the clock.
 *
 * The streams are http_engine's. libnghttp2's callbacks run within http2_client_feed and http2_client_collect, with
 * the lock held. They only change records and queue notices. A stream's record is freed when libnghttp2 has closed
 * the stream and its owner has released it.
 */
#ifndef HTTP2_CLIENT_INTERNAL_H
#define HTTP2_CLIENT_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "http2_client.h"
#include "http2_fields.h"
#include "http_engine.h"

/* A head, or trailers, as rows. */
typedef struct http2_client_head {
    struct http2_client_head *next;
    int status; /* 0: none has come */
    uint32_t count, part;
    size_t length, capacity, charge;
    uint8_t *rows; /* from realloc */
} http2_client_head;

typedef struct http2_client_stream {
    http_stream common;          /* must be first: http2_client_own casts the pointer */
    http2_client_head *building; /* while it arrives */
    http_list heads;             /* those that were not read yet */
    uint32_t interims;
    uint32_t code; /* the error code of the failure */
    http2_client_cause cause;
    uint8_t has_sent_head;
    uint8_t has_final_head;
    uint8_t server_has_reset;
} http2_client_stream;

struct http2_client {
    http_streams streams; /* must be first: http2_client_of casts the pointer */
    http_engine engine;
    nghttp2_session *session;
    http2_client_settings settings;
    uint32_t stream_count; /* open ones */
    const uint8_t *left;   /* bytes that libnghttp2 has serialised and that did not fit into the output */
    size_t left_length;
    uint8_t end_frame[9]; /* a frame that ends a request without bytes */
    uint8_t is_ready, is_leaving, is_over, has_failed, sender_sleeps;
    uint8_t is_lost; /* no memory was left for what the server must know: the next step ends the connection */
};

static inline http2_client_stream *http2_client_own(http_stream *stream)
{
    return (http2_client_stream *)stream;
}

/* The streams keep their connection: it frees them before it ends. */
static inline http2_client *http2_client_of(const http_stream *stream)
{
    return (http2_client *)stream->streams;
}

static inline int32_t http2_client_id(const http_stream *stream)
{
    return (int32_t)stream->key;
}

/* ------------------------------------------------------------------------------------------------------------------
 * http2_client.c */

/* The connection takes no further requests. */
void http2_client_begin_leaving(http2_client *client);
void http2_client_note_state(http2_client *client);
/* For the result of a call of libnghttp2 after which the server must hear of something. One side would wait for ever
   if it does not. */
void http2_client_note_result(http2_client *client, int result);

/* ------------------------------------------------------------------------------------------------------------------
 * http2_client_stream.c */

extern const http_protocol http2_client_protocol;

void http2_client_free_head(http2_client_head *head);
/* Returns -1 without memory. */
int http2_client_add_field(http2_client_head *to, const uint8_t *name, size_t name_length, const uint8_t *value,
                           size_t value_length);
void http2_client_free_stream(http_stream *stream);
/* Notes why the stream fails, unless it has failed already. What was received before can still be read. */
void http2_client_fail(http_stream *stream, http2_client_cause cause, uint32_t code);
/* Fails a stream as http2_client_fail does, and returns the result with which a callback makes libnghttp2 reset it. */
int http2_client_refuse(http_stream *stream, http2_client_cause cause, uint32_t code);
/* A part of the request cannot be sent, or a part of the response cannot be kept: resets the stream. Otherwise the
   server would wait for the rest. */
void http2_client_give_up(http_stream *stream);
/* Gives libnghttp2 the end of a request whose bytes it has. Returns 0, or a negative number. */
int http2_client_submit_end(http_stream *stream);
/* libnghttp2 has closed the stream, or the connection is over. May free the record. */
void http2_client_close_stream(http_stream *stream);

/* ------------------------------------------------------------------------------------------------------------------
 * http2_client_callbacks.c */

/* NULL without memory. */
nghttp2_session *http2_client_new_session(http2_client *client);

#endif
