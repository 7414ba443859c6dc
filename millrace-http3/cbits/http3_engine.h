/*
 * http3_engine.h - HTTP/3 of a server, on ngtcp2, nghttp3 and GnuTLS, purely in memory: received datagrams go in,
 * requests and datagrams to send come out. No callback leaves this file's implementation. Must not know: GHC,
 * sockets, the clock.
 *
 * An endpoint has all connections of one loop. A port may have several of them. Any thread may call any function.
 * Each takes the endpoint's lock for at most the time that processing one batch of datagrams takes. No function waits
 * for the network. All times are in nanoseconds, of one clock that never goes back.
 *
 * A stream that http3_next_request has returned belongs to its caller until http3_release. Its record stays valid
 * after the client has reset the stream, and after the connection has ended.
 */
#ifndef HTTP3_ENGINE_H
#define HTTP3_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "http3_frames.h"
#include "http_limit.h"
#include "http_settings.h"
#include "http_stream.h"

typedef struct http3_endpoint http3_endpoint;
typedef struct http3_credentials http3_credentials;

/* ------------------------------------------------------------------------------------------------------------------
 * Certificates */

/* The certificates of a server, none at first. Several endpoints may share them. NULL without memory. */
http3_credentials *http3_credentials_new(void);

/*
 * Adds a certificate with its chain, and its private key, both PEM. The first one added is for clients whose name no
 * other one has. `names`: the names of servers that it is for, each with a NUL behind it; the names in the
 * certificate if names_length is 0. Returns 0, or an error number of GnuTLS, which http3_error_text explains. Not
 * after the credentials were given to an endpoint.
 */
int http3_credentials_add(http3_credentials *credentials, const uint8_t *chain, size_t chain_length, const uint8_t *key,
                          size_t key_length, const char *names, size_t names_length);

/* Gives the caller's share back. Endpoints keep their own. */
void http3_credentials_free(http3_credentials *credentials);

/* A text for an error number of http3_credentials_add. */
const char *http3_error_text(int error);

/* Writes the names and versions of the libraries that are used, with a NUL behind them. */
void http3_libraries(char *text, size_t capacity);

/* ------------------------------------------------------------------------------------------------------------------
 * Endpoints */

#define HTTP3_SECRET_LENGTH 32u

/* How a connection finds out how fast it may send. CUBIC takes each loss, and each mark of a router (ECN), for a sign
 * that the path is full. BBR measures what arrives, and becomes slower when some per cent are lost. */
typedef enum http3_congestion { HTTP3_BBR = 0, HTTP3_CUBIC = 1 } http3_congestion;

/* The settings of an endpoint. They are copied. */
typedef struct http3_settings {
    http_settings common;     /* a packet that brings no progress costs a quarter of a frame */
    uint32_t blocked_max;     /* streams that may wait for the QPACK table */
    uint32_t requests_max;    /* requests of a connection, which ends after the last one; 0: no limit */
    uint32_t connections_max; /* connections at a time */
    uint32_t handshakes_max;  /* unfinished handshakes at a time; further clients are ignored */
    uint32_t
        retry_from; /* from this many unfinished handshakes on, a client must prove its address (Retry); 0: always */
    uint32_t
        idle_ms; /* a connection ends when nothing arrives for this time, not even an answer to a PING while a request
                         is served; 0: no limit */
    uint32_t handshake_ms; /* the limit for a handshake; 0: none */
    /* Bytes of a datagram that is sent: 1200 to 65527. Larger ones than 1200 are tried first (PMTUD). */
    uint32_t datagram_max;
    uint32_t congestion;  /* an http3_congestion; the default is BBR */
    uint32_t early;       /* whether requests in 0-RTT are served before the handshake is over: GET and HEAD alone */
    uint16_t endpoint_id; /* the first two bytes of all connection IDs: http3_endpoint_id_of */
    uint8_t
        secret[HTTP3_SECRET_LENGTH]; /* for tokens and stateless resets: the same for all processes that share a port */
} http3_settings;

/* Fills in the default of each setting, and a random secret. Returns 0, or a negative number without randomness. */
int http3_settings_default(http3_settings *settings);

/* Makes an endpoint. Returns NULL without memory. */
http3_endpoint *http3_open(const http3_settings *settings, http3_credentials *credentials);

/* Makes another endpoint for the same port, with the settings and secrets of the first one, but its own beginning of
 * connection IDs. The limits of connections and handshakes count for all endpoints of the port together. Returns NULL
 * without memory. */
http3_endpoint *http3_open_beside(http3_endpoint *first, uint16_t endpoint_id);

/* Replaces the certificates. Later handshakes use the new ones. */
void http3_set_credentials(http3_endpoint *endpoint, http3_credentials *credentials);

/* Ends all connections with the HTTP/3 error code (H3_NO_ERROR: 0x100), and takes no new ones. The next http3_collect
 * has what is to be sent about it. Threads that wait get notices. */
void http3_close(http3_endpoint *endpoint, uint64_t code, uint64_t now);

/* Frees a closed endpoint. All streams must have been released. No thread may use it afterwards. */
void http3_free(http3_endpoint *endpoint);

/* Flags of a result, besides those of http_stream.h. */
#define HTTP3_HAS_CHANGES (UINT64_C(1) << 38) /* http3_next_change has something to return */
#define HTTP3_IS_FOREIGN \
    (UINT64_C(1) << 39) /* from http3_receive: the first datagram of a client, unchanged, was not taken */

/* ------------------------------------------------------------------------------------------------------------------
 * Datagrams */

/* The setting endpoint_id of the endpoint that a datagram's connection ID names, or -1 if the datagram's ID is not
 * one of a server of this kind. If a datagram has arrived at one loop and another one is its owner, it must be given
 * to that one. Reads only the bytes. */
int32_t http3_endpoint_id_of(const uint8_t *bytes, size_t length);

/* Received bytes: a datagram, or several of `segment` bytes each (the last may be shorter), as the kernel joins them;
 * 0: one. */
typedef struct http3_datagrams {
    const void *local, *remote; /* struct sockaddr_in or sockaddr_in6 */
    uint32_t local_length, remote_length;
    uint32_t ecn;   /* the two bits of the IP header */
    uint8_t *bytes; /* may be changed */
    size_t length, segment;
} http3_datagrams;

/*
 * Processes received datagrams. The caller must call http3_collect afterwards, once for a batch. Returns flags.
 * HTTP3_IS_FOREIGN says that the endpoint is ending, and that another process with the same port may take the client;
 * with several datagrams, that this is so for one of them.
 */
uint64_t http3_receive(http3_endpoint *endpoint, const http3_datagrams *datagrams, uint64_t now);

/* When http3_handle_expiry must be called. It may change with each other call. UINT64_MAX: never. */
uint64_t http3_expiry(http3_endpoint *endpoint);

/* Does what is due: repeats lost packets, ends connections, lets paced packets go. The caller must call http3_collect
 * afterwards. Returns flags. */
uint64_t http3_handle_expiry(http3_endpoint *endpoint, uint64_t now);

/* Datagrams for one address, one behind the other: each has `segment` bytes, but the last one may have fewer. */
typedef struct http3_gso_batch {
    uint32_t offset, length; /* in the output */
    uint32_t segment;
    uint32_t ecn;
    uint32_t remote_length, local_length;
    uint8_t remote[28], local[28]; /* struct sockaddr_in or sockaddr_in6 */
} http3_gso_batch;

/* The least `capacity` for http3_collect, in bytes. */
#define HTTP3_COLLECT_MIN 65536u

/*
 * Writes datagrams to send to `out`, and describes them in `batches`. Returns flags and, in the lower half, the
 * number of batches. One thread at a time has the right to send; others get HTTP_IS_BUSY. A caller that gets batches
 * must send them. Then it must call again, as HTTP_SENDER_AGAIN, unless the flags have HTTP_HAS_ENDED: that ends its
 * right, even if there are batches. Datagrams that cannot be sent may be dropped: QUIC repeats what they had.
 */
uint64_t http3_collect(http3_endpoint *endpoint, http3_gso_batch *batches, uint32_t batches_max, uint8_t *out,
                       size_t capacity, uint64_t now, http_sender sender);

/* Gives the right to send back without another call of http3_collect, after sending has failed. */
void http3_stop_sending(http3_endpoint *endpoint);

/* True unless a thread sends, or a thread is about to call http3_collect anyway, or nothing is to be sent. After giving
 * output to the engine, a thread must call http3_collect with HTTP_SENDER_NEW, or make another one do so, if this is
 * true. */
int http3_needs_sender(http3_endpoint *endpoint);

/* ------------------------------------------------------------------------------------------------------------------
 * Connections */

/* Announces the end of all connections by GOAWAY. From the first call on, no new connections are accepted. After
 * HTTP_END_LAST each connection ends a second after its last request. */
void http3_announce_end(http3_endpoint *endpoint, http_end end);

/* Ends connections without a request that have had none for `limit` nanoseconds, or, if they had none at all, for
 * `fresh` since the end of their handshake. 0: no limit. Returns how many. The setting idle_ms does that, too, but is
 * counted anew with each packet, also with a PING. */
uint32_t http3_end_idle(http3_endpoint *endpoint, uint64_t now, uint64_t limit, uint64_t fresh);

/* Ends the connection with this number, with all its requests. It has no effect if there is none (any more). */
void http3_end_one(http3_endpoint *endpoint, uint64_t number, uint64_t now);

/* Packs the libraries' memory of connections that have been quiet for `quiet` nanoseconds, so that each takes half;
 * `most` of them. Returns how many. The next packet unpacks it. */
uint32_t http3_rest_quiet(http3_endpoint *endpoint, uint64_t now, uint64_t quiet, uint32_t most);

/* Resets streams whose output has waited for the client for `limit` nanoseconds. Returns how many. */
uint32_t http3_reset_stalled(http3_endpoint *endpoint, uint64_t now, uint64_t limit);

/* Resets streams whose request head has been incomplete for `limit` nanoseconds. Returns how many. */
uint32_t http3_reset_unfinished(http3_endpoint *endpoint, uint64_t now, uint64_t limit);

/* The number of connections, and of requests that are open or are served. */
uint32_t http3_connection_count(http3_endpoint *endpoint);
uint32_t http3_stream_count(http3_endpoint *endpoint);

/* The events of a connection: its handshake is complete; its client has gone beyond a limit, for which it ends; it
   has ended. */
typedef enum http3_change_kind { HTTP3_OPENED = 0, HTTP3_LIMITED = 1, HTTP3_ENDED = 2 } http3_change_kind;

typedef struct http3_change {
    uint64_t connection; /* its number; http3_stream has it, too */
    uint32_t kind;       /* an http3_change_kind */
    uint32_t limit;      /* an http_limit, with HTTP3_LIMITED */
    uint32_t remote_length;
    uint8_t remote[28];
} http3_change;

/* The next change, oldest first. Returns 0 if there is none. The endpoint keeps at most a few thousand; more are
   lost. */
int http3_next_change(http3_endpoint *endpoint, http3_change *change);

/* Counts since the endpoint was made. */
typedef struct http3_counts {
    uint64_t datagrams_received, datagrams_sent, bytes_received, bytes_sent;
    uint64_t connections;     /* handshakes that were completed */
    uint64_t refused;         /* first packets that were ignored because of a limit */
    uint64_t retries;         /* Retry packets */
    uint64_t resets;          /* stateless resets */
    uint64_t version_answers; /* Version Negotiation packets */
    uint64_t violations;      /* connections that were ended because the client broke the protocol or a limit */
} http3_counts;
void http3_count(http3_endpoint *endpoint, http3_counts *counts);

/* ------------------------------------------------------------------------------------------------------------------
 * Requests */

#define HTTP3_ADDRESS_MAX 28u

/* A request and the state of its stream. The fields of HTTP/3 that Haskell reads are constant. */
typedef struct http3_stream {
    http_stream common; /* must be first: http3_own casts the pointer */
    int64_t id;         /* of QUIC */
    uint64_t connection_number;
    uint32_t remote_length, local_length;
    uint8_t remote[HTTP3_ADDRESS_MAX],
        local[HTTP3_ADDRESS_MAX]; /* struct sockaddr_in or sockaddr_in6: when the request came */
    uint8_t is_early; /* came in 0-RTT, and may be a repetition by an attacker; its head has the field early-data: 1 */

    /* Only the engine reads these. */
    uint8_t has_head;   /* its head has begun, and libnghttp3 knows this record */
    uint8_t came_early; /* at least its beginning came in 0-RTT */
    uint8_t end_waits;  /* the end of the body came without bytes, and ngtcp2 has not taken it yet */
    uint8_t is_blocked; /* as libnghttp3 knows, because the connection's window is closed */
    http3_frames frames;
    uint32_t lines[2];       /* fields that libnghttp3 has reported, by http_section */
    http_building *building; /* while the head or the trailers arrive */
    uint64_t confirmed;      /* bytes of the stream that the client has acknowledged */
    uint64_t unreported;     /* of these, bytes that were not reported to libnghttp3 */
    uint64_t opened;         /* bytes by which the client's window was opened, and no thread was asked to send */
} http3_stream;

/* The next request, which the caller must serve. NULL if there is none. */
http_stream *http3_next_request(http3_endpoint *endpoint);

/* The next notice: a thread that waits for this event of this stream must be woken. As 4 * key + event; -1: none. */
int64_t http3_next_notice(http3_endpoint *endpoint);

/* Error codes of RFC 9114, section 8.1. */
#define HTTP3_NO_ERROR           UINT64_C(0x100)
#define HTTP3_INTERNAL_ERROR     UINT64_C(0x102)
#define HTTP3_EXCESSIVE_LOAD     UINT64_C(0x107)
#define HTTP3_REQUEST_REJECTED   UINT64_C(0x10b)
#define HTTP3_REQUEST_CANCELLED  UINT64_C(0x10c)
#define HTTP3_REQUEST_INCOMPLETE UINT64_C(0x10d)
#define HTTP3_MESSAGE_ERROR      UINT64_C(0x10e)
#define HTTP3_CONNECT_ERROR      UINT64_C(0x10f)
#define HTTP3_VERSION_FALLBACK   UINT64_C(0x110)

/* Gives the stream back after its handler has ended. Resets it if the response is incomplete. Returns flags. `now`
 * counts if the request was cancelled: a handler that runs on after that wastes work, which allowances.resets_max
 * limits. */
uint64_t http3_release(http_stream *stream, uint64_t now);

#endif
