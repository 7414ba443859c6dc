/*
 * conversation.h - a client and a server in one thread, connected by two wires in memory. A test may change the bytes
 * on a wire. Must not know: system calls, sockets.
 */
#ifndef CONVERSATION_H
#define CONVERSATION_H

#include "tls.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

#ifdef FUZZING /* without the harness */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: violated: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                  \
        }                                                                             \
    } while (0)
#else
#include "harness.h"
#endif

/* Numbers of versions, as in the protocol. */
enum { VERSION_1_2 = 0x303, VERSION_1_3 = 0x304 };

/* Credentials ***************************************************************************************************** */

/* A key and a certificate, in PEM. Never freed. */
typedef struct credentials {
    uint8_t *certificate;
    size_t certificate_length;
    uint8_t *key;
    size_t key_length;
    tls_identity *identity;
    const struct credentials *next; /* of all that were made */
} credentials;

/* Credentials with these alternative names ("DNS:localhost"), or without any if `names` is NULL. The certificate signs
 * itself. */
const credentials *credentials_of(const char *common_name, const char *names);

/* Credentials with these alternative names that an authority has signed. */
const credentials *credentials_from(const credentials *authority, const char *common_name, const char *names);

/* The caller frees them. */
X509 *certificate_of(const credentials *own);
EVP_PKEY *key_of(const credentials *own);

/* For localhost. */
const credentials *usual_credentials(void);

tls_context *new_server_context(const credentials *own, int version);
tls_context *new_client_context(const credentials *trusted, int version);

/* Steps *********************************************************************************************************** */

static inline size_t step_plain(tls_step step)
{
    return (size_t)(step & 0xfffffff);
}

static inline size_t step_out(tls_step step)
{
    return (size_t)(step >> 28 & 0xfffffff);
}

static inline tls_status step_status(tls_step step)
{
    return (tls_status)(step >> 56 & 15);
}

static inline bool step_has_more(tls_step step)
{
    return step >> 60 & 1;
}

/* Conversations *************************************************************************************************** */

/* Bytes on their way from one side to the other. */
typedef struct wire {
    uint8_t *bytes;
    size_t count;
    size_t capacity;
    size_t taken; /* by the receiving side */
    size_t cut;   /* bytes beyond this many never arrive */
} wire;

typedef enum { SHAKING, OPEN, ENDED, FAILED } phase;

typedef struct side {
    tls_connection *connection;
    phase phase;
    size_t to_send; /* how many plain bytes it must send in all */
    size_t sent;
    bool has_ended; /* it has sent its end (close_notify) */
    size_t received;
    tls_problem problem; /* if it has failed */
    wire *in;
    wire *out;
} side;

typedef struct conversation conversation;

/* Changes the bytes of a wire from position `from` on; may change their number. */
typedef void change_bytes(void *argument, wire *wire, size_t from);

struct conversation {
    side client;
    side server;
    wire to_server;
    wire to_client;
    uint64_t random; /* for the sizes of pieces */
    bool has_begun;
    bool is_whole; /* everything arrives in one piece */
    change_bytes *change;
    void *argument;
};

/* Begins a conversation in which each side sends `to_send` plain bytes. The connections keep the contexts alive. */
void conversation_begin(conversation *c, tls_context *client, tls_context *server, size_t to_send, uint64_t seed);

/* Runs one turn of each side. Returns false when neither side can do anything more. */
bool conversation_turn(conversation *c);

/* Takes turns until neither side is in its handshake any more. */
void conversation_shake_hands(conversation *c);

/* Runs all turns. The test fails if there are too many. */
void conversation_run(conversation *c);
void conversation_end(conversation *c);

/* For tests that make their own steps. */
void wire_put(wire *wire, const uint8_t *bytes, size_t count);
void side_put_kept(side *side);

/* The plain byte that each side sends at this position. */
uint8_t byte_at(size_t position);

uint32_t next_random(uint64_t *state);

#endif
