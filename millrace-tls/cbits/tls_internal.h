/*
 * tls_internal.h - the declarations that the C files of this package share. Must not know: system calls, sockets.
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
    char *name; /* in lower case */
    int group;
} tls_name;

typedef struct tls_sessions tls_sessions;

struct tls_context {
    atomic_size_t references;
    tls_role role;
    SSL_CTX **groups; /* connections are made from the first one; the others only hold identities */
    int group_count;
    tls_name *names; /* sorted */
    size_t name_count;
    bool refuses_unknown_names;
    uint8_t session_scope[32]; /* a session can only be resumed in a context with the same scope */
    uint8_t *protocols;
    size_t protocols_length;
    tls_tickets *tickets; /* NULL: OpenSSL's own */
    struct tls_staple *staples;
    tls_sessions *sessions; /* of a client that resumes; otherwise NULL */
};

/* The state of a server connection that asks its program for identities (tls_context_ask_identities). */
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
    size_t out_capacity;
    size_t kept_before; /* length of kept_out when the step began */
    bool is_starved;    /* OpenSSL asked for more input than there is */
    bool has_failed;
    bool has_ended;       /* the peer's close_notify has come */
    bool has_handshake;   /* the handshake is complete */
    tls_bytes kept_in;    /* received bytes that OpenSSL has not read yet */
    tls_bytes unread;     /* plain bytes that were given back */
    tls_bytes kept_out;   /* bytes to send that the caller has not taken yet */
    tls_failure *failure; /* NULL until the connection fails */
    bool is_without_memory;
    int alert_sent;
    int alert_received;
    tls_asking asking;
    atomic_bool holds_back; /* tickets are in kept_out */
    bool has_own_identity;  /* tls_connection_use was called */
    char *name_asked;       /* the name that the client asks for, if the context asks for identities */
    char *expected;         /* the server that a client expects, in lower case; only if the context has sessions */
    time_t verified;        /* when this server's certificate was verified */
    time_t verified_before; /* when the certificate of the offered session was verified */
};

/* Makes the BIO through which OpenSSL reads and writes a connection's bytes. NULL without memory. */
BIO *tls_bio_new(tls_connection *connection);

/* Notes why a call of OpenSSL failed. */
void tls_failure_note(tls_connection *connection, int ssl_error);
void tls_failure_set(tls_connection *connection, tls_problem problem, const char *detail);
void tls_failure_free(tls_connection *connection);

/* Callbacks for OpenSSL. */
void tls_on_info(const SSL *ssl, int where, int value);
int tls_on_verify(int is_good, X509_STORE_CTX *chain);
int tls_on_server_name(SSL *ssl, int *alert, void *context);
int tls_on_protocols(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
                     unsigned offered_length, void *context);

/* Adds the authorities that the machine trusts. Reads a file the first time, and when it has changed. */
bool tls_system_trust(X509_STORE *store);

void tls_context_hold(tls_context *context);
void tls_tickets_hold(tls_tickets *tickets);
void tls_staples_free(struct tls_staple *staples);
void tls_sessions_free(tls_sessions *sessions);

/* For a client that resumes sessions. It offers a session to its server; notes that the handshake is complete; keeps a
 * new session; and forgets its server's sessions after a failure, so that another attempt makes a full handshake. */
void tls_sessions_resume(tls_connection *connection);
void tls_sessions_note_handshake(tls_connection *connection);
void tls_sessions_keep(tls_connection *connection, SSL_SESSION *session);
void tls_sessions_forget(tls_connection *connection);

/* A pem_password_cb that returns no password. Without such a callback OpenSSL would ask on the terminal. */
int tls_no_password(char *to, int capacity, int is_writing, void *unused);

#endif
