/*
 * tls_internal.h - what the C files of this package share. Must not know: system calls, sockets.
 */
#ifndef TLS_INTERNAL_H
#define TLS_INTERNAL_H

#include "tls.h"
#include "tls_bytes.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

struct tls_identity {
    X509 *certificate;
    STACK_OF(X509) * chain; /* without the certificate itself */
    EVP_PKEY *key;
};

typedef struct tls_name {
    char *name; /* in small letters */
    int group;
} tls_name;

typedef struct tls_sessions tls_sessions;

struct tls_context {
    atomic_size_t references;
    tls_role role;
    SSL_CTX **groups; /* the first one is what connections are made of, the others hold identities only */
    int group_count;
    tls_name *names; /* sorted */
    size_t name_count;
    bool refuses_unknown_names;
    uint8_t session_scope[32]; /* sessions are for contexts with the same one */
    uint8_t *protocols;
    size_t protocols_length;
    tls_tickets *tickets; /* NULL: OpenSSL's own */
    struct tls_staple *staples;
    tls_sessions *sessions; /* of a client that resumes; otherwise NULL */
};

/* What a server that asks for identities knows about a connection's. */
typedef enum { ASKING_NOT_BEGUN, ASKING_WAITS, ASKING_SERVED, ASKING_UNKNOWN, ASKING_FAILED } tls_asking;

struct tls_connection {
    pthread_mutex_t lock; /* one thread may receive while another one sends */
    tls_context *context;
    SSL *ssl; /* NULL: closed */
    /* The caller's memory, during a call. */
    const uint8_t *in;
    size_t in_left;
    uint8_t *out;
    size_t out_count;
    size_t out_room;
    size_t kept_before; /* of kept_out */
    bool is_starved;    /* OpenSSL asked for more input than there is */
    bool has_failed;
    bool has_ended;       /* the peer's close_notify has come */
    bool has_handshake;   /* it is done */
    tls_bytes kept_in;    /* received, and not taken by OpenSSL yet */
    tls_bytes unread;     /* plain bytes that were given back */
    tls_bytes kept_out;   /* made by OpenSSL, and not sent yet */
    tls_failure *failure; /* allocated when there is something to tell */
    bool is_without_memory;
    int alert_sent;
    int alert_received;
    tls_asking asking;
    atomic_bool holds_back; /* tickets are in kept_out */
    bool has_own_identity;  /* tls_connection_use was called */
    char *name_asked;       /* while `asking` */
    char *expected;         /* a client's server, in small letters; only if the context has sessions */
    time_t verified;        /* when this server's certificate was verified */
    time_t verified_before; /* the same of the session that was offered to it */
};

/* The BIO through which OpenSSL reads and writes a connection; NULL without memory. */
BIO *tls_bio_new(tls_connection *connection);

/* Notes why a call of OpenSSL's failed. */
void tls_failure_note(tls_connection *connection, int ssl_error);
void tls_failure_set(tls_connection *connection, tls_problem problem, const char *detail);
void tls_failure_free(tls_connection *connection);

/* Callbacks of OpenSSL's. */
void tls_on_info(const SSL *ssl, int where, int value);
int tls_on_verify(int is_good, X509_STORE_CTX *chain);
int tls_on_server_name(SSL *ssl, int *alert, void *context);
int tls_on_protocols(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
                     unsigned offered_length, void *context);

void tls_context_hold(tls_context *context);
void tls_tickets_hold(tls_tickets *tickets);
void tls_staples_free(struct tls_staple *staples);
void tls_sessions_free(tls_sessions *sessions);

/* A client offers a session that it knows; has done its handshake; has a session to keep; has failed, so that another attempt must
 * begin without a session. */
void tls_sessions_resume(tls_connection *connection);
void tls_sessions_note_handshake(tls_connection *connection);
void tls_sessions_keep(tls_connection *connection, SSL_SESSION *session);
void tls_sessions_forget(tls_connection *connection);

/* A pem_password_cb that has none. Without one, OpenSSL would ask on the terminal. */
int tls_no_password(char *to, int room, int is_writing, void *unused);

#endif
