/*
 * http_state.h - the memory of a connection and of a request, laid out by the C compiler. Haskell reads and writes it,
 * one word at a time; see Millrace.Http.Http1.State for what each field means. Must not know: sockets, requests,
 * responses.
 *
 * Every field is one word, because Haskell accesses all of them in the same way.
 */
#ifndef HTTP_STATE_H
#define HTTP_STATE_H

#include <stdint.h>

/* The record of a connection while it is open, also while it is idle. */
typedef struct http_connection_state {
    intptr_t arena;
    intptr_t borrowed_input;
    intptr_t is_idle;
    intptr_t gives_way;
    intptr_t stage;
    intptr_t requests;
    intptr_t requests_ended;
    intptr_t early_flush;
    intptr_t pace[2];
    intptr_t expectation;
} http_connection_state;

/* The input and output of a connection that is not idle. At the beginning of its arena. */
typedef struct http_buffers {
    intptr_t input;
    intptr_t input_capacity;
    intptr_t input_start;
    intptr_t input_end;
    intptr_t output;
    intptr_t output_capacity;
    intptr_t output_end;
    intptr_t flush_end;
    intptr_t flushed;
    intptr_t sends;
} http_buffers;

/* One request and its response. HTTP/1 has one record for each connection, in the arena behind http_buffers. */
typedef struct http_request_state {
    intptr_t keeps_open;
    intptr_t total_deadline;
    intptr_t body_unread;
    intptr_t body_received;
    intptr_t body_budget;
    intptr_t body_progress;
    intptr_t body_is_over;
    intptr_t response_start;
    intptr_t response_sends;
    intptr_t response_bytes;
    intptr_t is_streaming;
    intptr_t framing;
    intptr_t chunk_start;
    intptr_t close_option;
} http_request_state;

#endif
