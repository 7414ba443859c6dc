/*
 * http2_internal.h - what the files of the HTTP/2 engine share: the records of a connection and of a stream. Must not know:
 * GHC, sockets, the clock.
 */
#ifndef HTTP2_INTERNAL_H
#define HTTP2_INTERNAL_H

#include <nghttp2/nghttp2.h>
#include <pthread.h>

#include "http2_engine.h"

/* At most so many bytes are sent as a head. */
#define HTTP2_RESPONSE_HEAD_MAX 1048576u

/* A piece of a body. */
typedef struct http2_chunk {
    struct http2_chunk *next;
    uint32_t start, end, capacity;
    uint8_t bytes[];
} http2_chunk;

/* The bytes of a body that wait. */
typedef struct http2_queue {
    http2_chunk *first, *last;
    uint64_t length;
} http2_queue;

/* Fields in the form in which they are sent. The names and values lie behind the table. */
typedef struct http2_block {
    uint32_t count;
    nghttp2_nv fields[];
} http2_block;

typedef enum http2_answer_state {
    HTTP2_UNANSWERED,
    HTTP2_ANSWER_HELD, /* can be taken back */
    HTTP2_ANSWER_SUBMITTED
} http2_answer_state;

typedef struct http2_inner {
    http2_stream seen; /* the part that Haskell reads; first, so that one pointer is the other */
    http2_connection *connection;
    struct http2_inner *next, *previous; /* all streams */
    struct http2_inner *next_ready;      /* complete requests that nobody serves yet */
    struct http2_inner *next_answered;   /* answers that are held */
    struct http2_inner *next_reset;      /* streams that are to be reset */
    http_field *head_fields;             /* the head, text behind it */
    http2_queue input, output;
    http2_block *answer, *trailers;
    uint8_t *request_trailers;
    size_t request_trailers_length;
    uint32_t request_trailers_count;
    int status;
    uint32_t reset_code; /* for RST_STREAM, while it is in the list of resets */
    http2_answer_state answer_state;
    uint8_t is_taken, is_released, is_ready, in_answered, in_resets;
    uint8_t is_finished; /* the whole response is there */
    uint8_t has_body;    /* the response has a body, or is not finished */
    uint8_t is_dribbled; /* its last frame was cut by a tiny window */
    uint8_t is_deferred; /* libnghttp2 waits for more output */
    uint8_t has_failed;  /* reset by us */
    uint8_t is_read;     /* nobody may read it any more */
    uint8_t drops_input; /* what the client still sends is not wanted */
    uint8_t reader_waits, writer_waits, close_waits;
    uint64_t skipped;     /* bytes of the request that nobody reads, since the answer was sent */
    uint32_t writer_mark; /* a waiting writer goes on at so many bytes */
    uint64_t moved_at;    /* when bytes of the response were sent last, by the connection's clock */
    uint64_t still_since; /* none of the bytes that wait were sent since then; 0: not known yet */
} http2_inner;

/* A request head while it arrives. */
typedef struct http2_building {
    http2_inner *stream;
    http_field *fields;
    uint8_t *text;
    uint8_t *cookie;                                     /* its parts, joined */
    uint32_t cookie_length, cookie_capacity, cookie_row; /* cookie_row: index + 1 of its field */
    uint32_t field_count, text_length, text_capacity, counted, decoded;
    uint32_t authority_offset, authority_length, scheme_offset, scheme_length;
    int32_t error; /* http_error */
    uint8_t host_added, is_trailer;
} http2_building;

/* A bucket of tokens that is refilled with time. */
typedef struct http2_bucket {
    double tokens;
    uint64_t filled_at;
} http2_bucket;

/* The last streams that a client has opened. What it sends on one that is closed may be a mistake of its own, or have crossed
 * our reset. */
#define HTTP2_REMEMBERED 16u

typedef struct http2_memory {
    int32_t ids[HTTP2_REMEMBERED]; /* a ring */
    uint32_t next;
    uint32_t reset_by_us; /* a bit for each */
} http2_memory;

struct http2_connection {
    pthread_mutex_t lock;
    const http2_settings *settings;
    nghttp2_session *session;
    http2_inner *streams;
    http2_inner *first_ready, *last_ready;
    http2_inner *first_answered, *last_answered;
    http2_inner *first_reset, *last_reset;
    http2_building *building; /* while a head arrives */
    int64_t *notices;
    uint32_t notice_count, notice_capacity, notices_taken;
    uint32_t served; /* streams that were taken and not released */
    uint32_t stream_count;
    const uint8_t *left; /* what libnghttp2 has serialised and did not fit */
    size_t left_length;
    uint8_t *out; /* during http2_collect */
    size_t out_length, out_room;
    uint64_t queued;      /* bytes in all outputs */
    uint32_t driver_mark; /* a driver that waits goes on when so few frames wait */
    uint8_t driver_waits;
    uint8_t is_sending, is_promised, is_blocked, has_failed, is_closed, is_secure, has_begun;
    uint64_t now;
    http2_bucket resets, frames;
    http2_memory memory;
    uint8_t head[9]; /* the beginning of a frame's head */
    uint8_t head_length;
    uint32_t payload_left; /* bytes until the next head */
    int32_t newest;        /* the latest stream of which a head has come */
    uint32_t violation;    /* error code of RFC 9113, section 7, for which the connection ends */
    /* The sizing of windows: a PING measures how much arrives within a round trip. */
    uint64_t probe_sent_at, probe_after, probe_bytes;
    uint64_t unread; /* bytes in all inputs */
    uint32_t stream_window, connection_window, idle_probes;
    uint32_t known_window;  /* the streams' window that the client has acknowledged */
    uint32_t probed_window; /* the window that the client knew when the PING was sent */
    uint8_t is_probing;
};

static inline http2_inner *inner_of(http2_stream *stream)
{
    return (http2_inner *)stream;
}

/* http2_allocator.c: as malloc, calloc and free, for what comes and goes with a request. */
void *http2_take(size_t size);
void *http2_take_zeroed(size_t size);
void http2_give(void *memory);
nghttp2_mem *http2_allocator(void);

/* http2_body.c */
typedef enum http2_more { HTTP2_MORE_FOLLOWS, HTTP2_NOTHING_FOLLOWS } http2_more;
int http2_queue_append(http2_queue *queue, const uint8_t *bytes, size_t length, http2_more more);
size_t http2_queue_take(http2_queue *queue, uint8_t *destination, size_t room);
void http2_queue_clear(http2_queue *queue);

/* http2_fields.c */
int http2_block_make(http2_block **block, const http2_settings *settings, int status, const http2_rows *fields,
                     int64_t length, int64_t *given);
int http2_block_make_plain(http2_block **block, int status, const http2_rows *fields);

/* http2_head.c */
int http2_head_begin(http2_connection *connection, http2_inner *stream);
void http2_head_begin_trailers(http2_connection *connection, http2_inner *stream);
int http2_head_field(http2_connection *connection, const uint8_t *name, size_t name_length, const uint8_t *value,
                     size_t value_length);
int http2_head_end(http2_connection *connection);
void http2_head_drop(http2_connection *connection);

/* http2_engine.c */
void http2_notify(http2_inner *stream, http2_event event);
void http2_wake_all(http2_inner *stream);
int http2_bucket_take(http2_bucket *bucket, uint64_t now, uint32_t most, uint32_t per_second);

#endif
