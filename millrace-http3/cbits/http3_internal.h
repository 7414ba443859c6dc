/*
 * http3_internal.h - what the files of the HTTP/3 engine share: the records of an endpoint, a connection and a
 * stream. Must not know: GHC, sockets, the clock.
 */
#ifndef HTTP3_INTERNAL_H
#define HTTP3_INTERNAL_H

#include <gnutls/gnutls.h>
#include <nghttp3/nghttp3.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <stdatomic.h>
#include <string.h>

#include "http3_engine.h"
#include "http3_memory.h"
#include "http_engine.h"
#include "http_memory.h"

#define HTTP3_MILLISECOND UINT64_C(1000000)
#define HTTP3_SECOND      UINT64_C(1000000000)

/* The length of a connection ID: two bytes of the endpoint, and random ones. */
#define HTTP3_ID_LENGTH 12u

/* The longest ID that a client can choose (RFC 9000, section 17.2). */
#define HTTP3_ID_MAX 20u

/* ------------------------------------------------------------------------------------------------------------------
 * Early handshakes: http3_replay.c */

typedef struct http3_register http3_register;

/* Adds an ID of at least 16 unpredictable bytes, for `time` nanoseconds. Returns 0 if it is there already, or if the
 * register is full. *at is NULL at first. */
int http3_register_add(http3_register **at, const uint8_t *id, size_t length, uint64_t now, uint64_t time);
void http3_register_free(http3_register *seen);

/* ------------------------------------------------------------------------------------------------------------------
 * TLS: http3_tls.c */

struct http3_credentials {
    _Atomic uint32_t shares;
    gnutls_certificate_credentials_t certificates;
};

#define HTTP3_TICKET_KEY_LENGTH 64u

/* The protection of 0-RTT against repetition: GnuTLS's records, the register, and the time of the latest call. */
typedef struct http3_early {
    gnutls_anti_replay_t current, next; /* NULL: there is none yet */
    uint64_t current_since, next_since;
    http3_register *seen;
    uint64_t now;
} http3_early;

/* A session will give out tickets for 0-RTT. */
void http3_early_note(http3_early *early, uint64_t now);
void http3_early_close(http3_early *early);
/* Lets a session accept 0-RTT that was made with HTTP3_EARLY_DATA. To be called each time before it reads what the
   client says. */
void http3_early_protect(http3_early *early, gnutls_session_t session, uint64_t now);

http3_credentials *http3_credentials_share(http3_credentials *credentials);
/* Derives the key for session tickets from the endpoint's secret. Returns 0 or a negative number. */
int http3_make_ticket_key(uint8_t *key, const uint8_t *secret);
typedef enum http3_offer { HTTP3_NO_EARLY_DATA, HTTP3_EARLY_DATA } http3_offer;
/* Makes a session that speaks to the connection that `reference` leads to. Returns NULL without memory. */
gnutls_session_t http3_new_session(const http3_credentials *credentials, const uint8_t *ticket_key, http3_offer offer,
                                   ngtcp2_crypto_conn_ref *reference);
/* Unpredictable bytes. Returns 0 or a negative number. */
int http3_random(uint8_t *bytes, size_t length);

/* ------------------------------------------------------------------------------------------------------------------
 * Records */

typedef struct http3_connection http3_connection;

/* A connection ID that leads to a connection. */
typedef struct http3_id {
    struct http3_id *next;     /* with the same hash */
    struct http3_id *next_own; /* of the same connection */
    http3_connection *connection;
    uint8_t length;
    uint8_t bytes[HTTP3_ID_MAX];
} http3_id;

typedef struct http3_address {
    uint32_t length;
    _Alignas(8) uint8_t bytes[HTTP3_ADDRESS_MAX];
} http3_address;

#define HTTP3_OWN_STREAMS 3u

typedef enum http3_phase {
    HTTP3_OPEN,
    HTTP3_CLOSING, /* its CONNECTION_CLOSE is repeated when something arrives (RFC 9000, section 10.2.1) */
    HTTP3_DRAINING /* nothing is sent any more */
} http3_phase;

struct http3_connection {
    http_streams streams; /* must be first: http3_connection_of casts the pointer */
    http3_endpoint *endpoint;
    uint64_t number;
    http3_phase phase;
    ngtcp2_conn *quic;
    nghttp3_conn *http;
    gnutls_session_t tls;
    http3_credentials *credentials; /* of the session */
    ngtcp2_crypto_conn_ref reference;
    http3_id *ids;
    http_list held; /* requests that may be repetitions, and are not safe then: ready after the handshake */
    http3_connection *next, *previous;                 /* all connections */
    http3_connection *next_pending, *previous_pending; /* those that may have something to send */
    http_stream *reading; /* the stream whose bytes libnghttp3 has got last; only valid while it looks at them */
    http_stream *writing; /* the stream that had output last; may be NULL */
    uint64_t expiry;      /* when it needs attention */
    uint32_t heap_index;
    uint32_t open_streams; /* records of streams: open, or not released */
    uint8_t is_pending, is_established, has_error, is_last_announced;
    uint8_t is_told;      /* a change says that it is open */
    uint8_t has_late_end; /* the end of a body came without bytes: it needs no window */
    uint8_t has_blocked;  /* streams with is_blocked, or those of own_streams */
    uint8_t takes_early;  /* its session accepts 0-RTT */
    uint8_t reads_early;  /* what libnghttp3 reads came in 0-RTT */
    uint8_t close_is_due; /* the CONNECTION_CLOSE is to be sent */
    ngtcp2_ccerr error;   /* with has_error: why the connection must end */
    uint8_t *close_packet;
    uint32_t close_length;
    uint32_t close_received,
        close_next; /* packets that have arrived since; how many there must be for the next repetition */
    http3_address remote, local;
    http3_address latest; /* where the latest packet came from */
    uint64_t looks_until;
    uint64_t opened;    /* as in http3_stream, for the connection's window */
    uint64_t active_at; /* when a stream was opened or closed last; at first the end of the handshake */
    uint8_t had_requests;
    int64_t own_streams[HTTP3_OWN_STREAMS]; /* that libnghttp3 writes to: control, and two for QPACK */
    uint32_t requests;                      /* that were begun */
    uint64_t last_at;                       /* when the last GOAWAY is due; UINT64_MAX: none is */
    ngtcp2_mem quic_memory;
    nghttp3_mem http_memory;
    http3_memory memory; /* the libraries' */
    uint64_t received;   /* bytes of all streams, in order */
    uint64_t heard_at;   /* when the latest packet arrived */
    uint64_t sent_at;    /* when packets were sent that ngtcp2 does not know of yet; 0: it knows of all */
};

/* Counts of all endpoints of a port together. */
typedef struct http3_port {
    _Atomic uint32_t shares;
    _Atomic uint32_t open_count, handshake_count; /* connections: open (handshakes included); handshakes */
} http3_port;

struct http3_endpoint {
    http_engine engine; /* must be first: http3_endpoint_of casts the pointer */
    http3_settings settings;
    http_head_limits limits;
    http3_credentials *credentials;
    uint8_t ticket_key[HTTP3_TICKET_KEY_LENGTH];
    uint64_t hash_key[2];
    http3_id **table; /* by the hash of the ID */
    uint32_t table_size, id_count;
    http3_connection *connections;
    http3_connection *first_pending, *last_pending;
    http3_connection **heap; /* by expiry */
    uint32_t heap_count, heap_capacity;
    uint32_t open_count, ending_count; /* connections: open (handshakes included); closing or draining */
    http3_port *port;
    http3_early early;
    uint32_t stream_count; /* records of streams */
    http3_cells cells;
    http3_change *changes;
    uint32_t change_count, change_capacity, changes_taken;
    uint64_t next_number, next_key;
    http_bucket stateless;
    http_building *spare; /* memory for a head */
    http3_counts counts;
    uint8_t *packets; /* datagrams that belong to no connection: a length, an address each */
    uint32_t packets_length, packets_capacity;
    uint8_t is_sending, is_promised, is_ending, is_last, is_closed;
    uint8_t is_foreign; /* for one call of http3_receive */
};

static inline http3_stream *http3_own(const http_stream *stream)
{
    return (http3_stream *)stream;
}

static inline int64_t http3_id_of(const http_stream *stream)
{
    return http3_own(stream)->id;
}

/* NULL: it has ended. */
static inline http3_connection *http3_connection_of(const http_stream *stream)
{
    return (http3_connection *)stream->streams;
}

static inline http3_endpoint *http3_endpoint_of(const http_stream *stream)
{
    return (http3_endpoint *)stream->engine;
}

static inline void http3_copy_address(http3_address *target, const ngtcp2_addr *source)
{
    target->length = source->addrlen <= HTTP3_ADDRESS_MAX ? (uint32_t)source->addrlen : 0;
    memcpy(target->bytes, source->addr, target->length);
}

static inline int http3_is_address(const void *bytes, uint32_t length, const http3_address *address)
{
    return length == address->length && memcmp(bytes, address->bytes, length) == 0;
}

/* The fields in libnghttp3's form. */
static inline const nghttp3_nv *nv_of(const http_block *block)
{
    return (const nghttp3_nv *)block->fields;
}

_Static_assert(sizeof(http_nv) == sizeof(nghttp3_nv) && offsetof(http_nv, name) == offsetof(nghttp3_nv, name) &&
                   offsetof(http_nv, value) == offsetof(nghttp3_nv, value) &&
                   offsetof(http_nv, name_length) == offsetof(nghttp3_nv, namelen) &&
                   offsetof(http_nv, value_length) == offsetof(nghttp3_nv, valuelen) &&
                   offsetof(http_nv, flags) == offsetof(nghttp3_nv, flags) &&
                   HTTP_NV_IS_LASTING == (NGHTTP3_NV_FLAG_NO_COPY_NAME | NGHTTP3_NV_FLAG_NO_COPY_VALUE),
               "the fields have libnghttp3's form");

/* ------------------------------------------------------------------------------------------------------------------
 * http3_table.c: connection IDs and expiries of an endpoint */

http3_connection *http3_find(const http3_endpoint *endpoint, const uint8_t *id, size_t length);
/* Returns -1 without memory. */
int http3_add_id(http3_connection *connection, const uint8_t *id, size_t length);
void http3_remove_id(http3_connection *connection, const uint8_t *id, size_t length);
void http3_remove_ids(http3_connection *connection);
/* Returns -1 without memory. */
int http3_enter_heap(http3_connection *connection, uint64_t expiry);
void http3_set_expiry(http3_connection *connection, uint64_t expiry);
void http3_leave_heap(http3_connection *connection);

/* ------------------------------------------------------------------------------------------------------------------
 * http3_pending.c: what connections tell their endpoint */

/* Puts the connection into the list of those that may have something to send. */
void http3_make_pending(http3_connection *connection);
void http3_leave_pending(http3_connection *connection);
void http3_push_change(http3_connection *connection, http3_change_kind kind);
/* Says, once, that it counts: from the end of its handshake on, or from an earlier request. */
void http3_tell_open(http3_connection *connection);

/* ------------------------------------------------------------------------------------------------------------------
 * http3_limits.c */

/* The cost of a packet, of the allowance for frames without use. Packets that bring something earn that back. */
#define HTTP3_PACKET_FRAMES 0.25

/* Notes why the connection must end: an error code of RFC 9114. The first reason counts. */
void http3_fail(http3_connection *connection, uint64_t code);
/* For a callback of ngtcp2, after libnghttp3 has failed. */
int http3_failed(http3_connection *connection, nghttp3_ssize result);
void http3_exceed(http3_connection *connection, http_limit limit);
void http3_fail_for_limit(http3_connection *connection);
/* Each returns whether the connection must end at once. */
int http3_is_useless(http3_connection *connection, double frames);
int http3_is_refused_too_often(http3_connection *connection);
int http3_is_cancelled_too_often(http3_connection *connection, http_stream *stream);
void http3_announce(http3_connection *connection, http_end end);
/* Announces the end if the client has gone beyond a limit. Not within callbacks. */
void http3_begin_end(http3_connection *connection);
/* The allocators of the libraries. */
void http3_begin_memory(http3_connection *connection);
/* Must be called before the libraries are, unless a packet has just arrived or something was just due. */
void http3_wake(http3_connection *connection);

/* ------------------------------------------------------------------------------------------------------------------
 * http3_stream.c */

extern const http_protocol http3_protocol;

/* NULL without memory. */
http_stream *http3_new_stream(http3_connection *connection, int64_t id);
/* ngtcp2 has closed the stream. May free the record. */
void http3_close_stream(http_stream *stream);
/* The connection has ended: closes the stream, and releases it from the connection. */
void http3_orphan_stream(http_stream *stream);
void http3_make_ready(http_stream *stream);
/* Ends both directions of the stream, with an error code of RFC 9114. */
void http3_shut_stream(http_stream *stream, uint64_t code);
/* ngtcp2 has put bytes of the stream into packets. */
void http3_note_accepted(http_stream *stream, uint64_t length);
/* The client has acknowledged bytes of the body. */
void http3_note_acknowledged(http_stream *stream, uint64_t length);
/* The client has acknowledged bytes of the stream. */
void http3_note_confirmed(http_stream *stream, uint64_t length);
/* HTTP_HAS_* and those that depend only on the endpoint. */
uint64_t http3_flags(const http3_endpoint *endpoint);

/* ------------------------------------------------------------------------------------------------------------------
 * http3_requests.c */

/* Begins with HTTP, if it has not begun. Returns 0 or an error of ngtcp2. */
int http3_begin_http(http3_connection *connection);
/* Gives libnghttp3 bytes of a stream that carries no request. Returns how many it has used up, or -1. */
nghttp3_ssize http3_read_bytes(http3_connection *connection, int64_t id, const uint8_t *bytes, size_t length,
                               int is_end);
/* Gives libnghttp3 bytes of a request. Returns -1 if the connection must end. */
int http3_read_request(http3_connection *connection, http_stream *stream, const uint8_t *bytes, size_t length,
                       int is_last);
/* Returns 0 or an error of ngtcp2. */
int http3_tell_acknowledged(http3_connection *connection, int64_t id, uint64_t length);

/* ------------------------------------------------------------------------------------------------------------------
 * http3_connection.c */

/* Makes a connection for a client's first packet. `original`: the ID that the client chose before a Retry; NULL: there
 * was none. Returns NULL without memory. */
http3_connection *http3_new_connection(http3_endpoint *endpoint, const ngtcp2_path *path, const ngtcp2_pkt_hd *head,
                                       const ngtcp2_cid *original, ngtcp2_token_type token_type, uint64_t now);
/* Gives the connection a datagram. Returns NGTCP2_ERR_RETRY if the client must be asked to prove its address; the
 * connection is freed then. */
int http3_read_packet(http3_connection *connection, const ngtcp2_path *path, uint32_t ecn, const uint8_t *bytes,
                      size_t length, uint64_t now);
/* Does what is due. */
void http3_expire(http3_connection *connection, uint64_t now);
/* Ends the connection with its error, or with a result of ngtcp2. */
void http3_end_connection(http3_connection *connection, int result, uint64_t now);
/* Packs the memory of a connection that has had nothing to do for `quiet` nanoseconds. Returns whether it did. */
int http3_rest(http3_connection *connection, uint64_t now, uint64_t quiet);
/* Frees the connection without another word. */
void http3_drop_connection(http3_connection *connection);
/* Tells ngtcp2 when packets were sent. */
void http3_note_sent(http3_connection *connection);

/* ------------------------------------------------------------------------------------------------------------------
 * http3_output.c */

/* The caller's memory, during http3_collect. */
typedef struct http3_output {
    http3_gso_batch *batches;
    uint32_t batch_count, batches_max;
    uint8_t *bytes;
    size_t length, capacity;
} http3_output;

typedef enum http3_written {
    HTTP3_NO_MORE,   /* it has nothing to send now */
    HTTP3_MORE_LATER /* there may be more, after other connections, or when there is space */
} http3_written;

/* Writes what the connection may send now, at most one burst. */
http3_written http3_write_packets(http3_connection *connection, http3_output *output, uint64_t now);
/* Adds a datagram, to the last batch if it fits. Returns 0 if the output is full. */
int http3_add_packet(http3_output *output, const http3_address *local, const http3_address *remote, uint32_t ecn,
                     size_t length);

#endif
