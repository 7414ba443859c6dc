/*
 * http2_internal.h - what the files of the HTTP/2 engine share: the records of a connection and of a stream. Must not know:
 * GHC, sockets, the clock.
 */
#ifndef HTTP2_INTERNAL_H
#define HTTP2_INTERNAL_H

#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdatomic.h>

#include "http2_engine.h"
#include "http_list.h"
#include "http_memory.h"
#include "http_response_fields.h"

typedef enum http2_answer_state {
    HTTP2_UNANSWERED,
    HTTP2_ANSWER_HELD, /* can be taken back */
    HTTP2_ANSWER_SUBMITTED
} http2_answer_state;

typedef struct http2_inner {
    http2_stream seen; /* the part that Haskell reads; must be first: inner_of casts the pointer */
    http2_connection *connection;
    struct http2_inner *next, *previous; /* all streams */
    struct http2_inner *next_ready;      /* requests that http2_next_request has not returned yet */
    struct http2_inner *next_answered;   /* answers to be sent, which can be taken back until then */
    struct http2_inner *next_reset;      /* streams to reset */
    http_request_fields fields;
    uint32_t head_size; /* bytes of its head that count in the connection's heads_size */
    http_body input, output;
    http_block *answer, *trailers;
    int status;
    uint32_t reset_code; /* for RST_STREAM, while the stream is in the list of resets */
    http2_answer_state answer_state;
    uint8_t is_taken, is_released, is_ready, in_answered, in_resets;
    uint8_t is_finished;     /* the application has given the whole response */
    uint8_t has_body;        /* the response has a body, or is not finished */
    uint8_t sent_tiny_frame; /* the last DATA frame was small because the client's window is tiny */
    uint8_t is_deferred;     /* libnghttp2 must be told when there is more output */
    uint8_t has_failed;      /* reset by the server, or about to be */
    uint8_t head_is_sent;    /* the answer's head, that is; it is not an interim response */
    uint8_t is_flushed;      /* http2_flush was called after the answer */
    uint8_t is_aborted;      /* to be reset when everything flushed is sent */
    uint8_t is_read;         /* http2_end_reading was called: reading fails */
    uint8_t is_stopping;     /* to be reset at stops_at: the client still sends after its answer */
    uint8_t drops_input;     /* bytes that still arrive are dropped */
    uint8_t reader_waits, writer_waits, close_waits;
    uint8_t waits_for_window; /* a writer waits until it may send */
    uint64_t flushed;         /* bytes of the response's body until the latest flush */
    uint64_t skipped;         /* bytes of the request that arrived and were dropped after the answer was sent */
    uint32_t writer_mark;     /* a waiting writer continues when at most this many bytes are unsent */
    uint64_t stops_at;
    http_cancellation cancellation; /* while its handler ran */
    uint64_t moved_at;              /* when bytes of the response were sent last (connection's `now`, nanoseconds) */
    uint64_t
        stalled_since_ns; /* when output was first found waiting that could not be sent; 0: none is known to wait */
    uint64_t stalled_progress; /* progress_of at that time */
    uint64_t others_sent;      /* bytes of all other bodies that were sent until the latest progress_of */
    uint64_t behind_others;    /* those of them for which this stream waited although its window was open */
} http2_inner;

/* The latest streams that a client has opened, and which of them the server has reset. A frame on a closed stream is an error of
 * the client, except after a reset: then the client may have sent it before it received RST_STREAM. */
#define HTTP2_REMEMBERED 16u

typedef struct http2_memory {
    int32_t ids[HTTP2_REMEMBERED]; /* a ring */
    uint32_t next;
    uint32_t reset_by_us; /* a bit for each entry: the server has reset the stream */
} http2_memory;

/* The windows that a client opens again. */
enum { HTTP2_LENT_BY_CONNECTION, HTTP2_LENT_BY_STREAMS, HTTP2_LENDERS };

/* The most bytes of a frame that are checked before libnghttp2 gets it. */
#define HTTP2_CHECKED_MAX 13u

struct http2_connection {
    pthread_mutex_t lock;
    const http2_settings *settings;
    nghttp2_session *session;
    http2_inner *streams;
    http_list ready, answered, resetting; /* by next_ready, next_answered and next_reset */
    http_building *building;              /* while a head arrives; its owner is a stream */
    int64_t *notices;
    uint32_t notice_count, notice_capacity, notices_taken;
    uint32_t served; /* streams that http2_next_request has returned and that were not released */
    uint32_t stream_count;
    http2_inner *
        held_stream; /* whose DATA frame libnghttp2 has made and there was no room for: it will ask for the same bytes again */
    size_t held_length;  /* the bytes of that frame */
    const uint8_t *left; /* bytes that libnghttp2 has serialised and that did not fit into the output */
    size_t left_length;
    uint8_t end[9]; /* a frame that ends an answer without bytes */
    uint8_t *out;   /* the caller's buffer, during http2_collect */
    size_t out_length, out_room;
    _Atomic uint64_t queued; /* unsent bytes of all bodies; written with the lock held */
    uint32_t driver_mark;    /* a waiting driver continues when at most this many frames are queued */
    uint8_t driver_waits;
    uint8_t is_sending, is_promised, is_blocked, has_failed, is_closed, is_secure, has_begun;
    uint8_t takes_no_more;  /* the last GOAWAY is given to libnghttp2: further streams are refused */
    uint8_t ends_for_limit; /* that GOAWAY says that the client has gone beyond a limit */
    uint8_t has_left;       /* the client has ended its side */
    uint8_t rest_waits;     /* the driver waits for the last answer to be sent */
    uint8_t is_broken;      /* sending has failed */
    uint64_t now;
    uint64_t sent;                /* bytes of all bodies that were handed to the transport */
    uint64_t lent[HTTP2_LENDERS]; /* those of them that the client has not given back to its windows */
    http_conduct conduct;
    http2_memory memory;
    uint8_t head[HTTP2_CHECKED_MAX]; /* the beginning of a frame */
    uint8_t head_length;
    uint32_t payload_left; /* bytes until the next head */
    int32_t newest;        /* the highest stream for which a HEADERS frame has come */
    uint32_t violation;    /* error code (RFC 9113, section 7) with which the connection will end; 0: none */
    /* Window sizes: a PING measures how many bytes arrive within a round trip. */
    uint64_t probe_sent_at, probe_after, probe_bytes;
    uint64_t unread;         /* bytes of all request bodies that were not read yet */
    uint32_t window_waiters; /* streams whose writers wait for a window */
    uint64_t heads_size;     /* bytes of the heads of all unfinished requests */
    uint32_t stream_window, connection_window, idle_probes;
    uint32_t known_window;  /* the window of streams that the client has acknowledged (SETTINGS) */
    uint32_t probed_window; /* the smaller of known_window and the connection's, when the PING was sent */
    uint8_t is_probing;
};

static inline http2_inner *inner_of(http2_stream *stream)
{
    return (http2_inner *)stream;
}

/* Memory of twice the size, or the first, for what must grow even where memory is short: a few kilobytes are kept for it. NULL if
 * these are used up, too. */
void *http2_grow(void *memory, size_t size);
void http2_give_grown(void *memory); /* or what http_take has returned; may be NULL */

/* http2_home.c: the memory of connections. http2_enter_home returns a record of zeros, or NULL. The blocks that libnghttp2 allocates
 * through http2_allocator before http2_settle_in have their places beside the record. */
http2_connection *http2_enter_home(void);
nghttp2_mem http2_allocator(http2_connection *connection);
void http2_settle_in(http2_connection *connection);
void http2_leave_home(http2_connection *connection);

/* The fields in libnghttp2's form. */
static inline const nghttp2_nv *nv_of(const http_block *block)
{
    return (const nghttp2_nv *)block->fields;
}

_Static_assert(sizeof(http_nv) == sizeof(nghttp2_nv) && offsetof(http_nv, name) == offsetof(nghttp2_nv, name) &&
                   offsetof(http_nv, value) == offsetof(nghttp2_nv, value) &&
                   offsetof(http_nv, name_length) == offsetof(nghttp2_nv, namelen) &&
                   offsetof(http_nv, value_length) == offsetof(nghttp2_nv, valuelen) &&
                   offsetof(http_nv, flags) == offsetof(nghttp2_nv, flags) &&
                   HTTP_NV_IS_LASTING == (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE),
               "the fields have libnghttp2's form");

/* http2_engine.c */
void http2_notify(http2_inner *stream, http2_event event);
void http2_wake_all(http2_inner *stream);

#endif
