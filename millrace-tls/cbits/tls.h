/*
 * tls.h - what Haskell calls: contexts, certificates and connections. Must not know: system calls, sockets.
 *
 * OpenSSL never sees a descriptor. A connection takes received bytes and makes bytes to send; who receives and sends them
 * is the caller's business. Nothing here waits, except for another call on the same connection, which does not wait either.
 */
#ifndef TLS_H
#define TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tls_context tls_context;
typedef struct tls_connection tls_connection;
typedef struct tls_identity tls_identity;
typedef struct x509_st tls_certificate;

/* Contexts ******************************************************************************************************** */

typedef enum { TLS_CLIENT, TLS_SERVER } tls_role;

/* NULL without memory. Released by tls_context_release; every connection holds its context, too. */
tls_context *tls_context_new(tls_role role);
void tls_context_release(tls_context *context);

/* The settings of a context, to be made before the first connection. Those that return a bool return false if OpenSSL
 * refuses, and `tls_last_error` then says why (in the same OS thread). Numbers of versions are those of the protocol. */
bool tls_context_versions(tls_context *context, int lowest, int highest);
bool tls_context_ciphers(tls_context *context, const char *for_1_3, const char *for_1_2);
bool tls_context_groups(tls_context *context, const char *names);

/* The application protocols, the preferred one first, each behind a byte with its length. */
bool tls_context_protocols(tls_context *context, const uint8_t *list, size_t length);

typedef enum { TLS_PEER_NOT_ASKED, TLS_PEER_ASKED, TLS_PEER_REQUIRED } tls_peer_certificate;
bool tls_context_verify(tls_context *context, tls_peer_certificate peer);
bool tls_context_trust_system(tls_context *context);

/* Certificates or revocation lists in PEM. A negative number is an error, others how many there were. With a revocation
 * list, the issuer of every certificate of a chain must have one. */
int tls_context_trust(tls_context *context, const uint8_t *pem, size_t length);
int tls_context_revoke(tls_context *context, const uint8_t *pem, size_t length);

/* Which identities a server shows to which names. Group 0 is for clients that name nobody, or nobody who is known. */
int tls_context_add_group(tls_context *context);
bool tls_context_use(tls_context *context, int group, const tls_identity *identity);
bool tls_context_add_name(tls_context *context, const char *name, int group);
void tls_context_refuse_unknown_names(tls_context *context);

/* Every handshake of a server stops once with TLS_WANTS_IDENTITY: see tls_connection_name_asked. To be called when all groups are
 * there. */
void tls_context_ask_identities(tls_context *context);

/* Session tickets. The keys may be shared by contexts, so that those of a new one open the tickets of the old one. */
typedef struct tls_tickets tls_tickets;

/* The name, the key of the MAC and the key of the cipher: 16, 32 and 32 bytes. */
enum { TLS_TICKET_KEY_SIZE = 80 };

/* With keys of its own, which change every hour. NULL without memory. */
tls_tickets *tls_tickets_new(void);
void tls_tickets_release(tls_tickets *tickets);

/* These keys instead, which do not change: the first one protects new tickets, and all open them. From 1 to 16. */
bool tls_tickets_give(tls_tickets *tickets, const uint8_t *keys, size_t count);

/* To be called when all groups are there. */
void tls_context_use_tickets(tls_context *context, tls_tickets *tickets);
void tls_context_refuse_tickets(tls_context *context);

/* A client keeps the sessions that servers offer, and resumes them: 256 in all and four of each name. They are used for the name that
 * they are from, at most two hours after the server's certificate was verified, and never beyond its end. False without memory. */
bool tls_context_resume(tls_context *context);

/* Shows an authority's answer (OCSP, in DER) with an identity, if it is about its certificate and until it is too old. False if it is
 * no answer. To be called when all groups are there. */
bool tls_context_staple(tls_context *context, const tls_identity *identity, const uint8_t *answer, size_t length);

/* Appends the secrets of all connections to a file, in the format of SSLKEYLOGFILE. There is one such file in a program. False: see
 * errno. */
bool tls_context_log_keys(tls_context *context, const char *path);

/* Identities ****************************************************************************************************** */

typedef enum {
    TLS_IDENTITY_OK,
    TLS_IDENTITY_NO_CERTIFICATE,
    TLS_IDENTITY_BAD_CERTIFICATE,
    TLS_IDENTITY_NO_KEY,
    TLS_IDENTITY_NEEDS_PASSWORD,
    TLS_IDENTITY_BAD_KEY,
    TLS_IDENTITY_MISMATCH,
    TLS_IDENTITY_NO_MEMORY
} tls_identity_result;

/* A private key and its chain of certificates, in PEM, the server's or client's own first. The password may be NULL. */
tls_identity_result tls_identity_new(tls_identity **identity, const uint8_t *chain, size_t chain_length,
                                     const uint8_t *key, size_t key_length, const uint8_t *password,
                                     size_t password_length);
void tls_identity_free(tls_identity *identity);
tls_certificate *tls_identity_certificate(const tls_identity *identity);

/* A number for each kind of key: a context has at most one identity of each. */
int tls_identity_kind(const tls_identity *identity);

/* Certificates **************************************************************************************************** */

tls_certificate *tls_certificate_parse(const uint8_t *der, size_t length);
void tls_certificate_free(tls_certificate *certificate);

typedef enum {
    TLS_FIELD_DER,
    TLS_FIELD_SUBJECT,
    TLS_FIELD_ISSUER,
    TLS_FIELD_SERIAL,
    TLS_FIELD_DNS_NAMES, /* each ends with a NUL */
    TLS_FIELD_ADDRESSES  /* each ends with a NUL */
} tls_certificate_field;

/* Writes a field as far as there is room, and returns its length, however little room there is. */
size_t tls_certificate_read(const tls_certificate *certificate, tls_certificate_field field, uint8_t *to, size_t room);

/* Seconds since 1970; false if the certificate's time makes no sense. */
bool tls_certificate_begins(const tls_certificate *certificate, int64_t *seconds);
bool tls_certificate_ends(const tls_certificate *certificate, int64_t *seconds);

/* Connections ***************************************************************************************************** */

/* NULL without memory. */
tls_connection *tls_connection_new(tls_context *context);

/* For a client, before its handshake: whom it expects, as a name or an address in text form. */
bool tls_connection_expect(tls_connection *connection, const char *name);

/* Frees what OpenSSL holds. Calls that come later find the connection closed. */
void tls_connection_close(tls_connection *connection);

/* The same, and the memory of the connection itself. */
void tls_connection_free(tls_connection *connection);

typedef enum {
    TLS_DONE,
    TLS_WANTS_INPUT,
    TLS_ENDED,  /* the peer has said that nothing more comes */
    TLS_FAILED, /* tls_connection_failure says why */
    TLS_CLOSED, /* tls_connection_close was called */
    TLS_BAD_FILE,
    TLS_SENDING_ENDED, /* tls_connection_end was called */
    TLS_WANTS_IDENTITY /* tls_connection_answer must be called before the handshake goes on */
} tls_status;

/* What a step has done: so many bytes taken from, or put into, the caller's plain bytes; so many bytes to send, which are in
 * the caller's memory; and the status. In one word, because an unsafe call returns one: bits 0 to 27, 28 to 55, and 56 to 59.
 * Bit 60: there are more bytes to send, which tls_connection_collect returns; of a receive: it has made some.
 * Bit 61: tls_connection_has_input. */
typedef int64_t tls_step;

/* Goes on with the handshake, with bytes that were received. Bytes of TLS_FAILED must be sent, too: they tell the peer. */
tls_step tls_connection_handshake(tls_connection *connection, const uint8_t *in, size_t in_count, uint8_t *out,
                                  size_t out_room);

/* After TLS_WANTS_IDENTITY: the name that the client asks for, NULL if it names none; identities to show to it instead of the
 * context's, at most one of each kind of key; and the answer, after which the handshake goes on. */
const char *tls_connection_name_asked(tls_connection *connection);
bool tls_connection_use(tls_connection *connection, const tls_identity *identity);

typedef enum { TLS_NAME_SERVED, TLS_NAME_UNKNOWN, TLS_NAME_FAILED } tls_name_answer;
void tls_connection_answer(tls_connection *connection, tls_name_answer answer);

/* Takes all bytes that were received, and returns plain bytes. TLS_DONE: at least one. What does not fit comes next time. */
tls_step tls_connection_receive(tls_connection *connection, const uint8_t *in, size_t in_count, uint8_t *plain,
                                size_t room);

/* The same for bytes that were received into a buffer with so much room: the plain bytes take their place. */
tls_step tls_connection_receive_in_place(tls_connection *connection, uint8_t *buffer, size_t count, size_t room);

/* May a receive return something without new bytes? */
bool tls_connection_has_input(tls_connection *connection);

/* Do tickets wait for the server's first answer? A client that waits for acknowledgements (Nagle's algorithm) may wait for theirs with
 * its first request, so they must not wait long. */
bool tls_connection_holds_back(tls_connection *connection);

/* Gives plain bytes back: the next receive begins with them. */
void tls_connection_unread(tls_connection *connection, const uint8_t *plain, size_t count);

/* Seals as many of the plain bytes as there is room for. What was to be sent earlier comes first. TLS_WANTS_INPUT: a message of
 * the peer's has come in part, and nothing can be sealed before the rest has: receive with room for nothing, and try again. */
tls_step tls_connection_send(tls_connection *connection, const uint8_t *plain, size_t count, uint8_t *out,
                             size_t out_room);

/* The same with the last bytes of the connection: when all are sealed, the peer is told that nothing more comes (tls_connection_end),
 * and the bytes for that follow at once. */
tls_step tls_connection_send_last(tls_connection *connection, const uint8_t *plain, size_t count, uint8_t *out,
                                  size_t out_room);

/* Seals all of the plain bytes, at most 16,384: the bytes to send take their place, in a buffer with so much room. If they do
 * not fit, nothing is sealed, and the step is TLS_DONE without plain bytes. */
tls_step tls_connection_send_in_place(tls_connection *connection, uint8_t *buffer, size_t count, size_t room);

/* Seals all of the plain bytes, at most 16,384, and keeps what is to be sent: it comes first the next time. */
tls_step tls_connection_send_later(tls_connection *connection, const uint8_t *plain, size_t count);

/* tls_connection_send with bytes of a regular file. TLS_BAD_FILE: the count of plain bytes is an errno. TLS_DONE without plain bytes
 * and bytes to send: the end of the file. */
tls_step tls_connection_send_file(tls_connection *connection, int file, int64_t offset, size_t count, uint8_t *out,
                                  size_t out_room);

/* Moves bytes that are to be sent, and were not returned otherwise. */
tls_step tls_connection_collect(tls_connection *connection, uint8_t *out, size_t out_room);

/* Takes back bytes to send that could not be sent: they come first the next time. */
void tls_connection_put_back(tls_connection *connection, const uint8_t *out, size_t count);

/* Tells the peer that nothing more comes. The bytes for that are collected. */
void tls_connection_end(tls_connection *connection);

/* Has the peer said that nothing more comes, or has the connection failed? */
bool tls_connection_is_over(tls_connection *connection);

/* Memory for four sealed records, which one system call can send. NULL without memory. Whoever takes it gives it back. */
enum { TLS_ROOM_SIZE = 4 * (16384 + 64) + 64 };
uint8_t *tls_room_take(void);
void tls_room_give(uint8_t *room);

/* What was negotiated, after the handshake; nothing of a closed connection. Strings live as long as the connection is not closed. */
int tls_connection_version(tls_connection *connection);
const char *tls_connection_cipher(tls_connection *connection);
const char *tls_connection_group(tls_connection *connection);
bool tls_connection_is_resumed(tls_connection *connection);
size_t tls_connection_protocol(tls_connection *connection, const uint8_t **name);
const char *tls_connection_server_name(tls_connection *connection);
tls_certificate *tls_connection_peer_certificate(tls_connection *connection);

/* Failures ******************************************************************************************************** */

typedef enum {
    TLS_PROBLEM_NONE,
    TLS_PROBLEM_ALERT,          /* the peer has refused */
    TLS_PROBLEM_CERTIFICATE,    /* we refuse the peer's certificate */
    TLS_PROBLEM_NO_CERTIFICATE, /* the peer must have one and has none */
    TLS_PROBLEM_NOT_TLS,        /* what came is another protocol */
    TLS_PROBLEM_PLAIN_HTTP,     /* what came is HTTP */
    TLS_PROBLEM_NO_VERSION,     /* no protocol version in common */
    TLS_PROBLEM_NO_CIPHER,      /* no cipher or group in common */
    TLS_PROBLEM_NO_PROTOCOL,    /* no application protocol in common */
    TLS_PROBLEM_UNKNOWN_NAME,   /* the client asks for a name that is not served */
    TLS_PROBLEM_VIOLATION,      /* the peer breaks the protocol's rules */
    TLS_PROBLEM_FLOOD,          /* the peer asks for more than it reads */
    TLS_PROBLEM_NO_MEMORY,
    TLS_PROBLEM_INTERNAL
} tls_problem;

typedef struct tls_failure {
    tls_problem problem;
    int alert_sent;     /* -1: none */
    int alert_received; /* -1: none */
    int verify_result;  /* X509_V_OK: none */
    int depth;          /* of the certificate that was refused; 0 is the peer's own */
    tls_certificate *certificate;
    char detail[200]; /* in OpenSSL's words */
} tls_failure;

/* NULL if it has not failed. Lives until tls_connection_free. */
const tls_failure *tls_connection_failure(tls_connection *connection);

/* OpenSSL's words for a number of tls_failure. */
const char *tls_verify_words(int verify_result);

/* The latest error of OpenSSL in this OS thread, and forgets it. */
size_t tls_last_error(char *to, size_t room);

#endif
