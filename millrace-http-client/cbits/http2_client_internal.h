/*
 * http2_client_internal.h - what the files of the HTTP/2 client share: the records of a connection and of a stream. Must not know: GHC,
 * sockets, the clock.
 *
 * libnghttp2's callbacks run within http2_client_feed and http2_client_collect, with the lock held. They only change records and
 * queue notices. A stream's record is freed when libnghttp2 has closed the stream and its owner has released it.
 */
#ifndef HTTP2_CLIENT_INTERNAL_H
#define HTTP2_CLIENT_INTERNAL_H

#include <nghttp2/nghttp2.h>
#include <pthread.h>

#include "http2_client.h"
#include "http_body.h"

/* A head or trailers, as rows. */
typedef struct http2_client_block {
    struct http2_client_block *next;
    int status; /* 0: none has come */
    uint32_t count, ends;
    size_t length, capacity, charge;
    uint8_t *rows;
} http2_client_block;

struct http2_client_stream {
    http2_client *client;
    struct http2_client_stream *next, *previous; /* all streams */
    struct http2_client_stream *next_noticed;    /* those with notices, in the order in which they got the first one */
    uint8_t notices;                             /* for its threads: a set of notice_for */
    uint32_t token;
    int32_t id;
    http2_client_block *building, *heads, *heads_last, *trailers;
    uint8_t *request_trailers; /* rows that are sent at the end of the body */
    uint32_t request_trailers_count;
    uint32_t interims;
    http_body input, output;
    uint32_t code; /* the server's error code */
    http2_client_cause cause;
    uint8_t is_released, is_closed, is_finished, is_deferred, has_sent_head;
    uint8_t has_final_head, has_ended; /* of the response */
    uint8_t was_reset;                 /* by the server */
    uint8_t reader_waits, writer_waits;
};

struct http2_client {
    pthread_mutex_t lock;
    nghttp2_session *session;
    http2_client_settings settings;
    http2_client_stream *streams;
    uint32_t stream_count;
    http2_client_stream *noticed, *noticed_last;
    const uint8_t *unsent; /* bytes of libnghttp2's that did not fit */
    size_t unsent_length;
    uint8_t end_frame[9]; /* a frame that ends a request without bytes */
    uint8_t is_ready, is_leaving, is_over, has_failed, writer_sleeps;
    uint8_t has_new_state; /* a notice */
    uint8_t is_lost;       /* no memory was left to tell the server something: the next step ends the connection */
};

typedef enum notice_for { FOR_READER = 1, FOR_WRITER = 2 } notice_for;

/* ------------------------------------------------------------------------------------------------------------------
 * http2_client_stream.c */

void http2_client_wake_reader(http2_client_stream *stream);
void http2_client_wake_writer(http2_client_stream *stream);
void http2_client_free_block(http2_client_block *old);
/* Returns -1 without memory. */
int http2_client_add_field(http2_client_block *to, const uint8_t *name, size_t name_length, const uint8_t *value,
                           size_t value_length);
/* Adds bytes to a body. Returns -1 without memory. */
int http2_client_append(http_body *to, const uint8_t *bytes, size_t length);
void http2_client_stream_free(http2_client_stream *stream);
/* The first cause counts. */
void http2_client_fail(http2_client_stream *stream, http2_client_cause cause, uint32_t code);
/* For the result of a call of libnghttp2 after which the server is told something. */
void http2_client_must_tell(http2_client *client, int result);
void http2_client_reset_now(http2_client_stream *stream, uint32_t code);
/* Without memory the response cannot be told: the stream ends. Returns what a callback returns then. */
int http2_client_out_of_memory(http2_client_stream *stream);
/* A part of the request cannot be sent, or a part of the response cannot be kept: resets the stream. */
void http2_client_give_up(http2_client_stream *stream);
/* Gives libnghttp2 the end of a request whose bytes it has. Returns 0, or a negative number. */
int http2_client_submit_end(http2_client_stream *stream);
/* libnghttp2 has closed the stream, or the connection is over. May free the record. */
void http2_client_stream_over(http2_client_stream *stream);
/* The connection takes no further requests. */
void http2_client_begin_leaving(http2_client *client);

/* ------------------------------------------------------------------------------------------------------------------
 * http2_client_callbacks.c */

/* NULL without memory. */
nghttp2_session *http2_client_new_session(http2_client *client);

#endif
