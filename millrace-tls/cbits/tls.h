/*
 * tls.h - the functions that Haskell calls: contexts, certificates and connections. Must not know: system calls,
 * sockets.
 *
 * OpenSSL never gets a descriptor. A connection takes received bytes and makes bytes to send; the caller receives and
 * sends them. No function waits for the peer. Calls on the same connection take its lock for the time of a step.
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

/* NULL without memory. The context is freed when tls_context_release was called and all its connections are freed. */
tls_context *tls_context_new(tls_role role);
void tls_context_release(tls_context *context);

/* The settings of a context. Make them before the first connection. A function that returns a bool returns false if
 * OpenSSL refuses the setting; `tls_last_error` has the reason (in the same OS thread). Versions are the protocol's
 * numbers: 0x303 is TLS 1.2. */
bool tls_context_versions(tls_context *context, int lowest, int highest);
bool tls_context_ciphers(tls_context *context, const char *for_1_3, const char *for_1_2);
bool tls_context_groups(tls_context *context, const char *names);

/* The application protocols (ALPN), the preferred one first. Before each is a byte with its length. */
bool tls_context_protocols(tls_context *context, const uint8_t *list, size_t length);

/* TLS_PEER_UNVERIFIED asks the peer, and accepts whatever certificate it has, if it proves that it has its key. */
typedef enum { TLS_PEER_NOT_ASKED, TLS_PEER_ASKED, TLS_PEER_REQUIRED, TLS_PEER_UNVERIFIED } tls_peer_certificate;
bool tls_context_verify(tls_context *context, tls_peer_certificate peer);
bool tls_context_trust_system(tls_context *context);

/* Add certificates or revocation lists in PEM. Return how many there were, or a negative number on an error. Once there
 * is a revocation list, every certificate of a chain must have an issuer with such a list. */
int tls_context_trust(tls_context *context, const uint8_t *pem, size_t length);
int tls_context_revoke(tls_context *context, const uint8_t *pem, size_t length);

/* A group of identities is for the server names that were added to it. Group 0 is for clients that ask for no name or
 * an unknown one. tls_context_add_group returns the number of the new group. */
int tls_context_add_group(tls_context *context);
bool tls_context_use(tls_context *context, int group, const tls_identity *identity);
bool tls_context_add_name(tls_context *context, const char *name, int group);
void tls_context_refuse_unknown_names(tls_context *context);

/* Makes every handshake of a server stop once with TLS_WANTS_IDENTITY: see tls_connection_name_asked. Call it after all
 * groups were added. */
void tls_context_ask_identities(tls_context *context);

/* The keys of session tickets. Contexts may share them: then a new context can decrypt the tickets of an old one. */
typedef struct tls_tickets tls_tickets;

/* Bytes of one key: its name (16), the MAC's key (32) and the cipher's (32). */
enum { TLS_TICKET_KEY_SIZE = 80 };

/* Makes random keys, which change every hour. NULL without memory. */
tls_tickets *tls_tickets_new(void);
void tls_tickets_release(tls_tickets *tickets);

/* Replaces the random keys by `count` others, from 1 to 16, which do not change. The first one encrypts new tickets;
 * all decrypt. */
bool tls_tickets_set_keys(tls_tickets *tickets, const uint8_t *keys, size_t count);

/* Call these after all groups were added. */
void tls_context_use_tickets(tls_context *context, tls_tickets *tickets);
void tls_context_refuse_tickets(tls_context *context);

/* Lets a client keep the sessions that servers offer, and resume them: at most 256, and four for each name. A session
 * is used only for its server's name, for two hours after the server's certificate was verified, and not after the
 * certificate's end. False without memory. */
bool tls_context_resume(tls_context *context);

/* Sends an OCSP response (in DER) with an identity's certificate, until the response is too old. One about another
 * certificate is ignored. False if it is not a valid OCSP response. Call it after all groups were added. */
bool tls_context_staple(tls_context *context, const tls_identity *identity, const uint8_t *answer, size_t length);

/* Appends the secrets of the context's connections to a file, in the format of SSLKEYLOGFILE. A program has one such
 * file. Returns false and errno on an error. */
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

/* Makes an identity from a private key and its chain of certificates, both in PEM. The first certificate is the
 * server's or client's own. The password may be NULL. */
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

/* Writes the first `capacity` bytes of a field, and returns the length of the whole field. */
size_t tls_certificate_read(const tls_certificate *certificate, tls_certificate_field field, uint8_t *to,
                            size_t capacity);

/* Store the certificate's time in seconds since 1970. False if it is not a valid time. */
bool tls_certificate_begins(const tls_certificate *certificate, int64_t *seconds);
bool tls_certificate_ends(const tls_certificate *certificate, int64_t *seconds);

/* Connections ***************************************************************************************************** */

/* NULL without memory. */
tls_connection *tls_connection_new(tls_context *context);

/* Sets which server a client expects: a name, or an address in text form. Call it before the handshake. */
bool tls_connection_expect(tls_connection *connection, const char *name);

/* Frees OpenSSL's part of the connection. Later calls return TLS_CLOSED. */
void tls_connection_close(tls_connection *connection);

/* Closes the connection and frees all its memory. No thread may use it afterwards. */
void tls_connection_free(tls_connection *connection);

typedef enum {
    TLS_DONE,
    TLS_WANTS_INPUT,
    TLS_ENDED,  /* the peer has ended its side (close_notify) */
    TLS_FAILED, /* tls_connection_failure has the reason */
    TLS_CLOSED, /* tls_connection_close was called */
    TLS_BAD_FILE,
    TLS_SENDING_ENDED, /* tls_connection_end was called */
    TLS_WANTS_IDENTITY /* tls_connection_answer must be called before the handshake continues */
} tls_status;

/* The result of a step, in one word, because an unsafe call returns only one: bits 0 to 27: how many plain bytes were
 * taken from the caller (send) or given to it (receive); bits 28 to 55: how many bytes to send are in the caller's
 * memory; bits 56 to 59: the tls_status; bit 60: more bytes to send are kept, and tls_connection_collect returns them;
 * after a receive: this step has added some; bit 61: tls_connection_has_input. */
typedef int64_t tls_step;

/* Continues the handshake with received bytes. If it returns TLS_FAILED, the bytes to send must still be sent: they
 * tell the peer why. */
tls_step tls_connection_handshake(tls_connection *connection, const uint8_t *in, size_t in_count, uint8_t *out,
                                  size_t out_capacity);

/* For TLS_WANTS_IDENTITY. tls_connection_name_asked returns the name that the client asks for, NULL if there is none.
 * tls_connection_use sets an identity instead of the context's, at most one of each kind of key. After
 * tls_connection_answer the handshake can continue. */
const char *tls_connection_name_asked(tls_connection *connection);
bool tls_connection_use(tls_connection *connection, const tls_identity *identity);

typedef enum { TLS_NAME_SERVED, TLS_NAME_UNKNOWN, TLS_NAME_FAILED } tls_name_answer;
void tls_connection_answer(tls_connection *connection, tls_name_answer answer);

/* Takes all received bytes, and returns plain bytes: at least one if the status is TLS_DONE. Plain bytes that do not
 * fit are returned by the next call. */
tls_step tls_connection_receive(tls_connection *connection, const uint8_t *in, size_t in_count, uint8_t *plain,
                                size_t capacity);

/* Like tls_connection_receive, but `buffer` has `count` received bytes and the plain bytes replace them. `capacity`:
 * the buffer's size. */
tls_step tls_connection_receive_in_place(tls_connection *connection, uint8_t *buffer, size_t count, size_t capacity);

/* True if a receive may return something without new bytes. */
bool tls_connection_has_input(tls_connection *connection);

/* True while tickets are kept to be sent with the server's first answer. They must not be kept long: a client with
 * Nagle's algorithm may hold its first request back until they arrive. */
bool tls_connection_holds_back(tls_connection *connection);

/* Puts plain bytes back. The next receive returns them first. */
void tls_connection_unread(tls_connection *connection, const uint8_t *plain, size_t count);

/* Encrypts (seals) as many plain bytes as fit into `out`, after bytes that were kept earlier. TLS_WANTS_INPUT: a
 * message of the peer has arrived only in part, and nothing can be sealed before the rest. Then call receive with a
 * capacity of 0, and try again. */
tls_step tls_connection_send(tls_connection *connection, const uint8_t *plain, size_t count, uint8_t *out,
                             size_t out_capacity);

/* Seals the last plain bytes of the connection, as tls_connection_send does. When all are sealed, it also ends the
 * connection (tls_connection_end), and adds the bytes for that. */
tls_step tls_connection_send_last(tls_connection *connection, const uint8_t *plain, size_t count, uint8_t *out,
                                  size_t out_capacity);

/* Seals all plain bytes, at most 16,384, and replaces them by the bytes to send. `capacity`: the buffer's size. If they
 * do not fit, nothing is sealed, and the result is TLS_DONE with 0 plain bytes. */
tls_step tls_connection_send_in_place(tls_connection *connection, uint8_t *buffer, size_t count, size_t capacity);

/* Seals all plain bytes, at most 16,384, and keeps the bytes to send. The next step that sends returns them first. */
tls_step tls_connection_send_later(tls_connection *connection, const uint8_t *plain, size_t count);

/* Seals bytes of a regular file, as tls_connection_send does; may wait for the disk. TLS_BAD_FILE: the number of plain
 * bytes is an errno. TLS_DONE with no plain bytes and no bytes to send: the end of the file. */
tls_step tls_connection_send_file(tls_connection *connection, int file, int64_t offset, size_t count, uint8_t *out,
                                  size_t out_capacity);

/* Returns kept bytes to send. */
tls_step tls_connection_collect(tls_connection *connection, uint8_t *out, size_t out_capacity);

/* Keeps bytes that could not be sent. The next step that sends returns them first. */
void tls_connection_put_back(tls_connection *connection, const uint8_t *out, size_t count);

/* Ends the sending side (close_notify). The bytes for that are kept: tls_connection_collect returns them. */
void tls_connection_end(tls_connection *connection);

/* True if the peer has ended its side, or the connection has failed. */
bool tls_connection_is_over(tls_connection *connection);

/* Memory for four sealed records, which one system call can send. NULL without memory. Free it with
 * tls_record_buffer_free. */
enum { TLS_RECORD_BUFFER_SIZE = 4 * (16384 + 64) + 64 };
uint8_t *tls_record_buffer_alloc(void);
void tls_record_buffer_free(uint8_t *capacity);

/* The results of the handshake. A closed connection has none. Strings are valid until the connection is closed. */
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
    TLS_PROBLEM_ALERT,          /* the peer has sent a fatal alert */
    TLS_PROBLEM_CERTIFICATE,    /* the peer's certificate is not accepted */
    TLS_PROBLEM_NO_CERTIFICATE, /* the peer must have a certificate and has none */
    TLS_PROBLEM_NOT_TLS,        /* the peer speaks another protocol */
    TLS_PROBLEM_PLAIN_HTTP,     /* the peer speaks HTTP without TLS */
    TLS_PROBLEM_NO_VERSION,     /* no protocol version in common */
    TLS_PROBLEM_NO_CIPHER,      /* no cipher or group in common */
    TLS_PROBLEM_NO_PROTOCOL,    /* no application protocol in common */
    TLS_PROBLEM_UNKNOWN_NAME,   /* the client asks for a name that is not served */
    TLS_PROBLEM_VIOLATION,      /* the peer breaks the protocol's rules */
    TLS_PROBLEM_FLOOD,          /* the peer requests answers (key updates) and does not read them */
    TLS_PROBLEM_NO_MEMORY,
    TLS_PROBLEM_INTERNAL
} tls_problem;

typedef struct tls_failure {
    tls_problem problem;
    int alert_sent;     /* -1: none */
    int alert_received; /* -1: none */
    int verify_result;  /* an X509_V_ERR_* of OpenSSL; X509_V_OK: none */
    int depth;          /* of the certificate that was refused; 0 is the peer's own */
    tls_certificate *certificate;
    char detail[200]; /* OpenSSL's text */
} tls_failure;

/* NULL if the connection has not failed. Valid until tls_connection_free. */
const tls_failure *tls_connection_failure(tls_connection *connection);

/* OpenSSL's text for the verify_result of a failure. */
const char *tls_verify_words(int verify_result);

/* Writes the text of OpenSSL's latest error in this OS thread, and clears the errors. Returns its length. */
size_t tls_last_error(char *to, size_t capacity);

#endif
