/*
 * world.h - an endpoint of the engine, an application on it, clients, and a link between them, all in memory and in
 * simulated time. A run depends on its seed alone, but for the keys.
 *
 * The clients are made of the same libraries as the engine, but share no code with it.
 */
#ifndef WORLD_H
#define WORLD_H

#include <gnutls/gnutls.h>
#include <nghttp3/nghttp3.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

#include "harness.h"
#include "http3_engine.h"

#define MILLISECOND UINT64_C(1000000)
#define SECOND      UINT64_C(1000000000)

enum { EXCHANGES_MAX = 1000, CLIENTS_MAX = 700, HANDLERS_MAX = 4096, DATAGRAM_ROOM = 65536 };

typedef struct world world;
typedef struct client client;

/* A request of a client, and what came of it. */
typedef struct exchange {
    client *client;
    int64_t id;
    uint64_t upload_length, given; /* of the request's body */
    uint8_t *upload;
    uint64_t expected, received; /* of the response's body */
    int status;
    uint32_t interim, trailers;
    int is_started, is_complete, is_closed;
    int is_late;   /* its stream is closed, and the response waits for the QPACK table */
    uint64_t code; /* with which the stream was closed */
} exchange;

typedef struct client_settings {
    uint64_t stream_window, connection_window;
    uint32_t version;
    const char *protocol; /* ALPN */
    const char *server_name;
    int is_mute;      /* sends nothing more after its first packet */
    int reads_slowly; /* opens no window */
    int without_http;
    uint16_t number; /* the address; 0: one of its own */
    const uint8_t *token;
    size_t token_length;
    int remembers;         /* keeps what 0-RTT needs */
    const client *earlier; /* tries 0-RTT with what that one has kept */
} client_settings;

struct client {
    world *world;
    ngtcp2_conn *quic;
    nghttp3_conn *http;
    gnutls_session_t tls;
    gnutls_certificate_credentials_t credentials;
    ngtcp2_crypto_conn_ref reference;
    client_settings settings;
    uint16_t number, port, known_port; /* known_port: as the client itself sees it */
    int is_established, is_confirmed, is_over, result, was_reset, goaways;
    int64_t goaway_id;
    uint32_t retries, versions_offered;
    ngtcp2_ccerr error;  /* from the server */
    char reason[64];     /* its text */
    uint32_t resets;     /* streams that the server has reset */
    uint64_t reset_code; /* of the latest one */
    exchange *exchanges[EXCHANGES_MAX];
    uint32_t exchange_count;
    uint8_t token[512];
    size_t token_length;
    uint64_t bytes_sent, bytes_received; /* datagrams */
    gnutls_datum_t session;              /* with settings.remembers */
    uint8_t parameters[256];
    size_t parameters_length;
    int is_early, was_rejected; /* 0-RTT */
    char peer_name[64];         /* of the server's certificate */
};

/* The link, in each direction. Chances are in thousandths. */
typedef struct link_settings {
    uint32_t loss, duplication;
    uint64_t delay, jitter; /* nanoseconds; with jitter datagrams overtake each other */
    uint64_t rate;          /* bytes in a second; 0: no limit */
    uint64_t queue;         /* bytes that wait for the rate, at most */
    uint64_t largest;       /* larger datagrams are dropped; 0: none */
    uint32_t congestion;    /* the chance that a router marks a datagram whose sender understands that (ECN) */
    int clears_marks;       /* a router does not know ECN */
    int joins;              /* what arrives at the server together is received together (GRO) */
} link_settings;

typedef struct flight flight;

/* A request that the application serves. */
typedef struct handler {
    http_stream *stream;
    int is_echo, is_stuck;
    uint64_t until;    /* with world.works_for */
    uint64_t left, at; /* of the response's body */
    uint64_t key;
} handler;

struct world {
    uint32_t foreign; /* datagrams of new clients that the endpoint did not take */
    uint64_t now, random;
    http3_settings settings;
    http3_endpoint *endpoint;
    link_settings link;
    flight *flights;
    uint64_t busy_until[2];
    client *clients[CLIENTS_MAX];
    uint32_t client_count;
    handler handlers[HANDLERS_MAX];
    uint32_t handler_count, handlers_seen, handlers_early, handlers_most, refused;
    uint64_t unread_most; /* bytes of a request that the application had not read */
    int is_lazy;          /* the application reads nothing */
    int is_stuck;         /* the application answers nothing */
    uint64_t works_for; /* so long, then, whether anybody waits for the answer or not; 0: until the stream is closed */
    int rests;          /* the memory of each connection is packed whenever it can be */
    uint32_t rested;    /* how often that was done */
    int is_served_elsewhere; /* other threads are the application */
    uint64_t datagrams_to_clients, bytes_to_clients, bytes_to_server;
    uint64_t largest_datagram;
    uint64_t sent_with[2][4]; /* datagrams to clients, and to the server, by their marks when they were sent */
    void (*on_datagram_to_server)(world *w, const uint8_t *bytes, size_t length); /* may be NULL */
    void (*on_datagram)(world *w, const http3_gso_batch *batch, const uint8_t *bytes,
                        size_t length); /* to clients; may be NULL */
};

/* Certificates are made once for a process. */
http3_credentials *make_credentials(const char *const *names, size_t count);

world *new_world(uint64_t seed);
/* Makes the endpoint with w->settings. */
void start_endpoint(world *w);
void end_world(world *w);

client *new_client(world *w, const client_settings *settings);
extern const client_settings ordinary;
/* A GET of this many bytes, or, with an upload, a POST whose body comes back. */
exchange *request(client *c, uint64_t download, uint64_t upload);
/* A request with these fields, whose response has a body of this many bytes at most. */
exchange *request_with(client *c, const nghttp3_nv *fields, size_t count, uint64_t expected);
void client_reset(exchange *e, uint64_t code);
/* Wants nothing more of the response. */
void client_stop(exchange *e, uint64_t code);
/* Sends a PRIORITY_UPDATE. */
void client_prioritize(exchange *e, const char *priority);
/* Opens a stream, of requests or unidirectional, and sends bytes on it that no library has made. Returns the stream. */
typedef enum raw_kind { RAW_REQUEST, RAW_UNIDIRECTIONAL } raw_kind;
int64_t send_raw(client *c, raw_kind kind, const void *bytes, size_t length);
/* Sends more on it. */
void send_more(client *c, int64_t id, const void *bytes, size_t length);
/* Ends it. */
void send_end(client *c, int64_t id);
/* Closes the client's connection. */
void client_close(client *c, uint64_t code);
/* Another address from now on; the client does not know it (NAT). */
void rebind(client *c);
/* Another address, which the client chooses: it uses another ID of the connection from now on. Returns 0, or
   ngtcp2's error. */
int migrate(client *c);

/* Hands the endpoint bytes as a datagram from this client's address, at once. */
void inject(world *w, uint16_t number, uint16_t port, const uint8_t *bytes, size_t length);
/* Lets the endpoint send. */
void flush_endpoint(world *w);

/* Runs until the condition holds, or for this time. Returns whether it holds. */
int run_until(world *w, int (*holds)(world *w), uint64_t limit);
void run_for(world *w, uint64_t time);
int all_complete(world *w);
int all_over(world *w);
int all_established(world *w);

uint32_t random_below(world *w, uint32_t limit);

#endif
