/*
 * http_engine.h - streams as the protocols see them. Must not know: GHC, sockets, the clock, libnghttp2, libnghttp3.
 *
 * The engine keeps the records of streams: their lists and notices, the bodies in both directions, the answer until
 * the protocol's library gets it, and which threads wait for which events. It decides when an answer may go, when a
 * writer waits, when a client is asked to stop, and which streams have stalled.
 *
 * A protocol gives it http_protocol: eight operations on its library, each with the engine's lock held. It makes
 * records (with its fields behind those of http_stream), says what has happened to them (http_take_input,
 * http_note_accepted, http_close_stream), and frees them.
 *
 * The engine must not know frames, packets, windows' sizes or when something is sent. A protocol must not know which
 * thread waits for a stream, or what an application has written and not yet given out.
 */
#ifndef HTTP_ENGINE_H
#define HTTP_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "http_stream.h"

/* The bytes of a stream's body that may wait although those of all bodies have reached their limit, so that streams
 * whose windows are closed hold up no other one. */
#define HTTP_OWN_OUTPUT_MIN 4096u

/* An answer may go when it is complete or flushed, or has this many bytes. */
#define HTTP_HELD_MOST 16384u

/* The streams of one connection: open, or not released yet. */
typedef struct http_streams {
    http_stream *first;
    http_list answered; /* answers that may go, and can be taken back until then */
    http_conduct conduct;
    _Atomic uint64_t queued; /* bytes of all bodies that wait; written with the lock held */
    uint64_t accepted;       /* bytes of all streams that have left the library */
    uint64_t unread;         /* bytes of all requests' bodies that were not read yet */
    uint64_t heads_size;     /* bytes of the fields of all unfinished requests */
    uint32_t window_waiters; /* streams whose writers wait for a window */
    uint8_t lacks_space;     /* writers may wait until fewer bytes of all bodies wait */
} http_streams;

typedef struct http_protocol {
    /* Gives the library the answer, and where its body comes from (http_stream.output) if it has one. */
    void (*submit)(http_stream *stream);
    /* There is something new of the stream to be sent: an answer, more of its body, or its end. */
    void (*resume)(http_stream *stream);
    /* Sends an interim response. The block is freed afterwards. */
    void (*inform)(http_stream *stream, const http_block *block);
    /* Ends both directions of the stream, with an error code. */
    void (*reset)(http_stream *stream, uint64_t code);
    /* The response is complete, and much of the request is still to come: the client is to stop. */
    void (*stop)(http_stream *stream);
    /* This many bytes of the request are read or dropped: the client may send as many more. */
    void (*consume)(http_stream *stream, uint64_t length);
    /* The bytes that the client's window takes: that of the stream, or that of the connection. */
    int64_t (*stream_window)(const http_stream *stream);
    int64_t (*connection_window)(const http_streams *streams);
    uint64_t queued_max; /* bytes of all bodies of a connection that may wait */
    uint64_t no_error, internal_error, cancelled;
    uint8_t keeps_input; /* what has come of a message that was cut off can still be read */
} http_protocol;

/* The state that the streams under one lock share. */
typedef struct http_engine {
    pthread_mutex_t lock;
    const http_protocol *protocol;
    const http_allowances *allowances;
    http_server_name server;
    uint32_t head_max;    /* bytes of a request head: names and values */
    uint32_t skipped_max; /* bytes of a request's body that are read and dropped after the answer */
    uint32_t output_high; /* a writer waits when this many bytes of its stream's body are unsent */
    uint64_t now;
    http_list ready;   /* requests to be served */
    http_list noticed; /* streams with notices, in the order in which they got the first one */
    uint8_t notices;   /* those about no stream, as in a stream */
} http_engine;

static inline void http_lock(http_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
}

static inline void http_unlock(http_engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}

/* ------------------------------------------------------------------------------------------------------------------
 * http_engine.c: records and lists, notices, requests */

/* HTTP_HAS_*. */
uint64_t http_engine_flags(const http_engine *engine);
/* Sets output_high to HTTP_OUTPUT_HIGH. The protocol stores its other limits itself. Returns -1 if there is no lock. */
int http_engine_begin(http_engine *engine, const http_protocol *protocol);
/* All its streams are freed. */
void http_engine_end(http_engine *engine);

/* There will be a notice of the event, about the stream or about HTTP_NO_STREAM. Notices need no memory: without one,
 * a thread would wait for ever. */
void http_notify(http_stream *stream, http_event event);
void http_notify_engine(http_engine *engine, http_event event);
/* The next notice; -1: there is none. Takes the lock. */
int64_t http_next_notice(http_engine *engine);

/* Enters a record of zeros among the streams of a connection. */
void http_enter_stream(http_stream *stream, http_engine *engine, http_streams *streams, uint64_t key);
/* The connection has ended: releases the stream from it. */
void http_orphan_stream(http_stream *stream);
/* Frees the record of a closed stream. */
void http_free_stream(http_stream *stream);
/* Puts the stream into the list where it waits, or takes it from there. */
void http_enlist(http_stream *stream, http_list *list);
void http_unlist(http_stream *stream);
/* The first stream of a list, which leaves it. NULL: there is none. */
http_stream *http_take_listed(http_list *list);
/* The next request, which its caller must serve. NULL: there is none. */
http_stream *http_take_request(http_engine *engine);

/* Counts the fields of a request, and `arriving` bytes of those that still arrive. Returns 0 if they exceed the limit
   of all. */
int http_count_fields(http_stream *stream, uint64_t arriving);

/* Wakes a reader, a writer that waits for space, one that waits for a window, or all threads that wait. */
void http_wake_reader(http_stream *stream);
void http_wake_writer(http_stream *stream);
void http_wake_for_window(http_stream *stream);
void http_wake_all(http_stream *stream);

/* The client has ended the request. */
void http_end_input(http_stream *stream);
/* Bytes of the request's body have come. Returns -1 without memory. */
int http_take_input(http_stream *stream, const uint8_t *bytes, size_t length);
/* Asks a client that has its answer, and has much of its request still to send, to stop (RFC 9113, section 8.1; RFC
   9114, section 4.1). */
void http_stop_client(http_stream *stream);

/* The stream is closed, or its connection has ended. Returns whether nobody uses the record any more: the caller must
   free it then. */
int http_close_stream(http_stream *stream, int was_reset);
/* Its handler has ended. Returns as http_close_stream. */
int http_end_handler(http_stream *stream, uint64_t now);

/* ------------------------------------------------------------------------------------------------------------------
 * http_answer.c: answers and their bodies */

/* Gives the library all answers that may go. */
void http_submit_answers(http_streams *streams);
/* The library has got bytes of the body. */
void http_note_given(http_stream *stream, uint64_t length);
/* Bytes of the stream have left the library. */
void http_note_accepted(http_stream *stream, uint64_t length);
/* Bytes have left the stream's output. */
void http_note_dropped(http_stream *stream, uint64_t length);
/* Windows of the client may have opened. */
void http_note_windows(http_streams *streams);
/* Drops all output but these bytes, or those for which there is a frame. */
void http_cut_output(http_stream *stream, uint64_t length);
/* Drops the answer with its output: the library has it not yet, or no longer. */
void http_drop_answer(http_stream *stream);
/* The stream can neither be read nor written any more. */
void http_lose_stream(http_stream *stream);
/* As http_stream_reset, with the lock held. */
void http_reset(http_stream *stream, uint64_t code);
/* Resets a stream that was aborted if all that was flushed is through. */
void http_end_aborted(http_stream *stream);
void http_abort(http_stream *stream);
/* Resets the streams of a connection that have waited for the client for `limit` nanoseconds: they have output and made
 * no progress, or, after the answer, the client has not ended its request. Returns how many. */
uint32_t http_reset_stalled(http_streams *streams, uint64_t now, uint64_t limit);

#endif
