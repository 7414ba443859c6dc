/*
 * http2_internal.h - what the files of the HTTP/2 engine share: the records of a connection and of a stream. Must not
 * know: GHC, sockets, the clock.
 */
#ifndef HTTP2_INTERNAL_H
#define HTTP2_INTERNAL_H

#include <nghttp2/nghttp2.h>
#include <pthread.h>

#include "http2_engine.h"
#include "http2_fields.h"
#include "http_engine.h"
#include "http_memory.h"

#define HTTP2_SECOND UINT64_C(1000000000)

/* The bytes of a frame's head. */
#define HTTP2_FRAME_HEAD 9u

/* A DATA frame with at least this many bytes counts as useful (http_limit.h). */
#define HTTP2_USEFUL 512u

typedef struct http2_stream {
    http_stream common; /* must be first: http2_own casts the pointer */
    union {
        /* With has_stopped: when the stream will be reset, because the client still sends after its answer. */
        uint64_t stops_at;
        uint32_t reset_code; /* for RST_STREAM, while the stream is in the list of resets */
    };
} http2_stream;

/* The latest streams that a client has opened, and which of them the server has reset. A frame on a closed stream is an
 * error of the client, except after a reset: then the client may have sent it before it received RST_STREAM. */
#define HTTP2_REMEMBERED 16u

typedef struct http2_memory {
    int32_t ids[HTTP2_REMEMBERED]; /* a ring */
    uint32_t next;
    uint32_t reset_by_us; /* a bit for each entry: the server has reset the stream */
    uint32_t reset_by_client;
} http2_memory;

/* The windows that a client opens again. */
enum { HTTP2_LENT_BY_CONNECTION, HTTP2_LENT_BY_STREAMS, HTTP2_LENDERS };

/* The most bytes of a frame that are checked before libnghttp2 gets it. */
#define HTTP2_CHECKED_MAX 13u

/* The most bytes of a frame that is sent in another form: the first SETTINGS. */
#define HTTP2_CHANGED_MAX 39u

struct http2_connection {
    http_streams streams; /* must be first: http2_connection_of casts the pointer */
    http_engine engine;
    const http_settings *settings;
    nghttp2_session *session;
    http_list resetting;     /* streams for which libnghttp2 is to send RST_STREAM */
    http_building *building; /* while a head arrives; its owner is a stream */
    uint32_t served;         /* streams that http2_next_request has returned and that were not released */
    uint32_t stream_count;   /* open ones */
    const uint8_t *left;     /* bytes that libnghttp2 has serialised and that did not fit into the output */
    size_t left_length;
    uint8_t changed[HTTP2_CHANGED_MAX]; /* a frame of libnghttp2's that is sent in another form */
    uint8_t *out;                       /* the caller's buffer, during http2_collect */
    size_t out_length, out_capacity;
    uint32_t driver_mark; /* a waiting driver continues when at most this many frames are queued */
    uint8_t driver_waits;
    uint8_t sends_tiny_frame; /* the latest DATA frame is small because the client's window is tiny */
    uint8_t is_sending, is_promised, is_blocked, has_failed, is_closed, is_secure, has_begun;
    uint8_t takes_no_more;  /* the last GOAWAY is given to libnghttp2: further streams are refused */
    uint8_t ends_for_limit; /* that GOAWAY says that the client has gone beyond a limit */
    uint8_t has_left;       /* the client has ended its side */
    uint8_t rest_waits;     /* the driver waits for the last answer to be sent */
    uint8_t is_broken;      /* sending has failed */
    /* libnghttp2 has failed while it made output. A frame may be missing that later ones build on. */
    uint8_t makes_no_more;
    /* bytes of bodies that were sent and that the client has not given back to its windows */
    uint64_t lent[HTTP2_LENDERS];
    http2_memory memory;
    uint8_t head[HTTP2_CHECKED_MAX]; /* the beginning of a frame */
    uint8_t head_length;
    uint32_t payload_left; /* bytes until the next head */
    int32_t newest;        /* the highest stream for which a HEADERS frame has come */
    uint32_t violation;    /* error code (RFC 9113, section 7) with which the connection will end; 0: none */
    /* Window sizes: a PING measures how many bytes arrive within a round trip. */
    uint64_t probe_sent_at, probe_after, probe_bytes;
    uint32_t stream_window, connection_window, idle_probes;
    uint32_t known_window;  /* the window of streams that the client has acknowledged (SETTINGS) */
    uint32_t probed_window; /* the smaller of known_window and the connection's, when the PING was sent */
    uint8_t is_probing;
};

static inline http2_stream *http2_own(http_stream *stream)
{
    return (http2_stream *)stream;
}

static inline http2_connection *http2_connection_of(const http_stream *stream)
{
    return (http2_connection *)stream->streams;
}

static inline int32_t http2_id(const http_stream *stream)
{
    return (int32_t)stream->key;
}

static inline http_stream *http2_stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* After libnghttp2 has failed for want of memory, the connection ends: a frame is missing for which the client, or a
   thread, would wait. */
static inline void http2_note_result(http2_connection *connection, int result)
{
    if (nghttp2_is_fatal(result))
        connection->has_failed = 1;
}

/* http2_arena.c: the memory of connections. http2_arena_open returns a record of zeros, or NULL. The blocks that
 * libnghttp2 allocates through http2_allocator before http2_arena_seal are in the arena, too. */
http2_connection *http2_arena_open(void);
nghttp2_mem http2_allocator(http2_connection *connection);
void http2_arena_seal(http2_connection *connection);
void http2_arena_close(http2_connection *connection);

/* ------------------------------------------------------------------------------------------------------------------
 * http2_frames.c */

/* Checks bytes of the client, and gives them to libnghttp2. */
void http2_give_frames(http2_connection *connection, const uint8_t *bytes, size_t length);
uint32_t http2_number_at(const uint8_t *bytes, size_t count);
/* The client has opened a stream; the server has reset one. */
void http2_remember(http2_memory *memory, int32_t id);
void http2_remember_reset(http2_memory *memory, int32_t id);
/* The connection must end with this error code of RFC 9113, section 7; because of a limit. */
void http2_violate(http2_connection *connection, uint32_t code);
void http2_obey(http2_connection *connection, http_verdict verdict);
void http2_exceed(http2_connection *connection, http_limit limit);

/* ------------------------------------------------------------------------------------------------------------------
 * http2_flow.c */

/* Bytes of bodies have come: begins to measure, if that is of use. */
void http2_begin_probe(http2_connection *connection);
/* The PING has come back. */
void http2_end_probe(http2_connection *connection);
/* The client has acknowledged the settings. */
void http2_note_known_window(http2_connection *connection, nghttp2_session *session);

/* ------------------------------------------------------------------------------------------------------------------
 * http2_stream.c */

extern const http_protocol http2_protocol;

/* NULL without memory. */
http_stream *http2_new_stream(http2_connection *connection, int32_t id);
/* libnghttp2 has closed the stream, or the session is about to be deleted. */
void http2_close_stream(http_stream *stream, uint32_t code);
/* Whether the answer is sent, and only the rest of a request that is dropped is still to come. */
static inline int http2_is_only_skipped(const http_stream *stream)
{
    return stream->drops_input && stream->end_is_given && !stream->has_ended;
}

/* Whether the client may open one more stream. */
int http2_has_slot(http2_connection *connection);
/* Tells libnghttp2 of the resets. Returns 0, or the error after which the connection must end. */
int http2_submit_resets(http2_connection *connection);
/* Sends a DATA frame: as nghttp2_send_data_callback. */
int http2_send_output(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
                      nghttp2_data_source *source, void *data);

/* ------------------------------------------------------------------------------------------------------------------
 * http2_callbacks.c */

/* NULL without memory. */
nghttp2_session_callbacks *http2_make_callbacks(void);

#endif
