/* hygiene.c - tests of how OpenSSL is used: old errors in the thread, the machine's configuration, closed connections,
 * sessions and tickets, and messages after the handshake. */
#include "clock.h"
#include "memory_test.h"
#include "tls_internal.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sets when a session was made. OpenSSL 3.4 has a function that also works after 2038, and deprecates the older one. */
static void establish(SSL_SESSION *session, time_t when)
{
#if OPENSSL_VERSION_PREREQ(3, 4)
    CHECK(SSL_SESSION_set_time_ex(session, when) != 0);
#else
    CHECK(SSL_SESSION_set_time(session, (long)when) != 0);
#endif
}

static void release(tls_context *client, tls_context *server)
{
    tls_context_release(client);
    tls_context_release(server);
}

/* A certificate is valid only for its alternative names, not for its subject (RFC 9525, section 2). */
void subject_is_no_name(uintptr_t version)
{
    const credentials *own = credentials_of("localhost", NULL);
    tls_context *client = new_client_context(own, (int)version);
    tls_context *server = new_server_context(own, (int)version);
    conversation c;
    conversation_begin(&c, client, server, 10, 1);
    conversation_run(&c);
    CHECK_EQ(c.client.phase, FAILED);
    CHECK_EQ(c.client.problem, TLS_PROBLEM_CERTIFICATE);
    CHECK_EQ(failure_of(c.client.connection)->verify_result, X509_V_ERR_HOSTNAME_MISMATCH);
    conversation_end(&c);
    release(client, server);
}

/* Reading an encrypted certificate must not ask for a password on the terminal. */
void encrypted_certificate(uintptr_t unused)
{
    (void)unused;
    const credentials *own = usual_credentials();
    BIO *memory = BIO_new_mem_buf(own->certificate, (int)own->certificate_length);
    X509 *certificate = PEM_read_bio_X509(memory, NULL, NULL, NULL);
    BIO *encrypted = BIO_new(BIO_s_mem());
    CHECK(certificate && encrypted);
    CHECK(PEM_ASN1_write_bio((i2d_of_void *)i2d_X509, PEM_STRING_X509, encrypted, certificate, EVP_aes_128_cbc(),
                             (const unsigned char *)"secret", 6, NULL, NULL) == 1);
    char *pem = NULL;
    size_t length = (size_t)BIO_get_mem_data(encrypted, &pem);
    /* Without a terminal, OpenSSL would ask the standard input. */
    int ends[2];
    MUST(pipe(ends));
    (void)setsid();
    MUST(dup2(ends[0], 0));
    CHECK_EQ(write(ends[1], "secret\nsecret\n", 14), 14);
    MUST(close(ends[1]));
    tls_identity *identity = NULL;
    CHECK_EQ(tls_identity_new(&identity, (uint8_t *)pem, length, own->key, own->key_length, NULL, 0),
             TLS_IDENTITY_BAD_CERTIFICATE);
    tls_context *context = tls_context_new(TLS_CLIENT);
    CHECK(context);
    CHECK_LT(tls_context_trust(context, (uint8_t *)pem, length), 0);
    char left[20];
    CHECK_EQ(read(0, left, sizeof left), 14);
    tls_context_release(context);
    X509_free(certificate);
    BIO_free(memory);
    BIO_free(encrypted);
}

void closed_is_closed(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    conversation c;
    conversation_begin(&c, client, server, 10, 1);
    while (c.client.phase == SHAKING)
        CHECK(conversation_turn(&c));
    tls_connection *closed = c.client.connection;
    tls_connection_close(closed);
    tls_connection_close(closed);
    uint8_t bytes[100] = {0};
    const uint8_t *name = NULL;
    CHECK_EQ(step_status(tls_connection_handshake(closed, bytes, 10, bytes, sizeof bytes)), TLS_CLOSED);
    CHECK_EQ(step_status(tls_connection_receive(closed, bytes, 10, bytes, sizeof bytes)), TLS_CLOSED);
    CHECK_EQ(step_status(tls_connection_send(closed, bytes, 10, bytes, sizeof bytes)), TLS_CLOSED);
    CHECK_EQ(step_status(tls_connection_send_file(closed, 0, 0, 10, bytes, sizeof bytes)), TLS_CLOSED);
    CHECK_EQ(step_status(tls_connection_collect(closed, bytes, sizeof bytes)), TLS_CLOSED);
    CHECK(tls_connection_has_input(closed) && tls_connection_is_over(closed));
    tls_connection_unread(closed, bytes, 10);
    tls_connection_put_back(closed, bytes, 10);
    tls_connection_end(closed);
    CHECK(!tls_connection_expect(closed, "localhost"));
    CHECK_EQ(tls_connection_version(closed), 0);
    CHECK(!tls_connection_cipher(closed) && !tls_connection_group(closed) && !tls_connection_server_name(closed));
    CHECK(!tls_connection_is_resumed(closed) && !tls_connection_peer_certificate(closed));
    CHECK_EQ(tls_connection_protocol(closed, &name), 0);
    CHECK(!tls_connection_failure(closed));
    conversation_end(&c);
    release(client, server);
}

/* Errors that other users of OpenSSL have left in this thread must not fail a connection. */
void old_errors(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    conversation c;
    conversation_begin(&c, client, server, 5000, 1);
    do
        ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
    while (conversation_turn(&c));
    CHECK_EQ(c.client.phase, ENDED);
    CHECK_EQ(c.server.phase, ENDED);
    CHECK_EQ(c.client.received, 5000);
    conversation_end(&c);
    release(client, server);
}

static int warn(SSL *ssl, int *alert, void *argument)
{
    (void)ssl;
    (void)argument;
    *alert = SSL_AD_UNRECOGNIZED_NAME;
    return SSL_TLSEXT_ERR_ALERT_WARNING;
}

/* A warning alert must not be reported as the cause of a later failure. */
void warnings_are_no_cause(uintptr_t version)
{
    const credentials *other = credentials_of("other", "DNS:other.test");
    tls_context *client = new_client_context(other, (int)version);
    tls_context *server = new_server_context(other, (int)version);
    SSL_CTX_set_tlsext_servername_callback(server->groups[0], warn);
    conversation c;
    conversation_begin(&c, client, server, 10, 1);
    conversation_run(&c);
    CHECK_EQ(c.client.phase, FAILED);
    const tls_failure *failure = failure_of(c.client.connection);
    CHECK_EQ(failure->problem, TLS_PROBLEM_CERTIFICATE);
    CHECK_EQ(failure->alert_received, -1);
    CHECK_EQ(failure->alert_sent, SSL_AD_BAD_CERTIFICATE);
    conversation_end(&c);
    release(client, server);
}

/* A security level of at least 2, even if the machine's configuration of OpenSSL sets none. */
void weak_key(uintptr_t version)
{
    CHECK_EQ(setenv("OPENSSL_CONF", "/dev/null", 1), 0);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    CHECK_GE(SSL_CTX_get_security_level(server->groups[0]), 2);
    CHECK_GE(SSL_CTX_get_security_level(client->groups[0]), 2);
    release(client, server);
}

void no_early_data(uintptr_t version)
{
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    CHECK_EQ(SSL_CTX_get_max_early_data(server->groups[0]), 0);
    tls_context_release(server);
}

/* Runs a conversation in which the client offers *session, if it is not NULL, and replaces that by its new session.
 * Returns the server's last phase. */
static phase resume(tls_context *client, tls_context *server, SSL_SESSION **session, bool *is_resumed,
                    tls_problem *problem)
{
    conversation c;
    conversation_begin(&c, client, server, 100, 1);
    if (*session)
        CHECK_EQ(SSL_set_session(c.client.connection->ssl, *session), 1);
    conversation_run(&c);
    *is_resumed = tls_connection_is_resumed(c.server.connection);
    *problem = c.server.problem;
    phase phase = c.server.phase;
    if (phase == ENDED) {
        SSL_SESSION_free(*session);
        *session = SSL_get1_session(c.client.connection->ssl);
        CHECK(*session);
    }
    conversation_end(&c);
    return phase;
}

/* A session from a server that asks for no client certificates must not be resumed at one that requires them, even if
 * both share the ticket keys. */
void session_of_other_settings(uintptr_t version)
{
    const credentials *own = usual_credentials();
    tls_context *client = new_client_context(own, (int)version);
    tls_context *lenient = new_server_context(own, (int)version);
    tls_context *again = new_server_context(own, (int)version);
    tls_context *strict = new_server_context(own, (int)version);
    tls_context_verify(strict, TLS_PEER_REQUIRED);
    CHECK_EQ(tls_context_trust(strict, own->certificate, own->certificate_length), 1);
    tls_tickets *tickets = tls_tickets_new();
    CHECK(tickets);
    tls_context_use_tickets(lenient, tickets);
    tls_context_use_tickets(again, tickets);
    tls_context_use_tickets(strict, tickets);
    tls_tickets_release(tickets);
    SSL_SESSION *session = NULL;
    bool is_resumed = true;
    tls_problem problem = TLS_PROBLEM_NONE;
    CHECK_EQ(resume(client, lenient, &session, &is_resumed, &problem), ENDED);
    CHECK(!is_resumed);
    CHECK_EQ(resume(client, again, &session, &is_resumed, &problem), ENDED);
    CHECK(is_resumed);
    CHECK_EQ(resume(client, strict, &session, &is_resumed, &problem), FAILED);
    CHECK_EQ(problem, TLS_PROBLEM_NO_CERTIFICATE);
    SSL_SESSION_free(session);
    tls_context_release(again);
    tls_context_release(strict);
    release(client, lenient);
}

/* In TLS 1.3 a client should use a ticket only once. So every connection brings a new one, even a resumed connection.
 * */
void tickets_follow_tickets(uintptr_t version)
{
    const credentials *own = usual_credentials();
    tls_context *client = new_client_context(own, (int)version);
    tls_context *server = new_server_context(own, (int)version);
    tls_tickets *tickets = tls_tickets_new();
    CHECK(tickets);
    tls_context_use_tickets(server, tickets);
    tls_tickets_release(tickets);
    SSL_SESSION *session = NULL;
    bool is_resumed = true;
    tls_problem problem = TLS_PROBLEM_NONE;
    uint8_t before[64] = {0};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(resume(client, server, &session, &is_resumed, &problem), ENDED);
        CHECK_EQ(is_resumed, i > 0);
        const uint8_t *ticket = NULL;
        size_t length = 0;
        SSL_SESSION_get0_ticket(session, &ticket, &length);
        CHECK_GE(length, sizeof before);
        CHECK(memcmp(before, ticket, sizeof before) != 0);
        memcpy(before, ticket, sizeof before);
    }
    SSL_SESSION_free(session);
    release(client, server);
}

/* Runs a conversation whose client must end in this phase. Returns whether it has resumed a session. */
static bool resumes(tls_context *client, tls_context *server, phase expected)
{
    conversation c;
    conversation_begin(&c, client, server, 100, 1);
    conversation_run(&c);
    CHECK_EQ(c.client.phase, expected);
    bool is_resumed = tls_connection_is_resumed(c.client.connection);
    conversation_end(&c);
    return is_resumed;
}

/* A client resumes sessions, but not after a failure. */
void client_sessions(uintptr_t version)
{
    const credentials *own = usual_credentials();
    tls_context *client = new_client_context(own, (int)version);
    tls_context *server = new_server_context(own, (int)version);
    tls_context *impostor = new_server_context(credentials_of("other", "DNS:other.test"), (int)version);
    CHECK(tls_context_resume(client));
    CHECK(!resumes(client, server, ENDED));
    CHECK(resumes(client, server, ENDED));
    CHECK(resumes(client, server, ENDED));
    CHECK(!resumes(client, impostor, FAILED));
    CHECK(!resumes(client, server, ENDED));
    /* The sessions stay valid after the context's release while a connection holds the context. */
    conversation c;
    conversation_begin(&c, client, server, 100, 1);
    release(client, server);
    conversation_run(&c);
    CHECK(tls_connection_is_resumed(c.client.connection));
    conversation_end(&c);
    tls_context_release(impostor);
}

enum { MINUTES = 60, HOURS = 3600 };

/* The server's certificate is verified again after two hours, although every connection brings a new ticket. */
void sessions_grow_old(uintptr_t version)
{
    const credentials *own = usual_credentials();
    tls_context *client = new_client_context(own, (int)version);
    tls_context *server = new_server_context(own, (int)version);
    CHECK(tls_context_resume(client));
    CHECK(!resumes(client, server, ENDED));
    advance_clock(50 * MINUTES);
    CHECK(resumes(client, server, ENDED));
    advance_clock(50 * MINUTES);
    CHECK(resumes(client, server, ENDED));
    advance_clock(25 * MINUTES);
    CHECK(!resumes(client, server, ENDED));
    CHECK(resumes(client, server, ENDED));
    release(client, server);
}

/* A server's context with these ticket keys. */
static tls_context *server_with(int version, tls_tickets *tickets)
{
    tls_context *server = new_server_context(usual_credentials(), version);
    tls_context_use_tickets(server, tickets);
    return server;
}

/* The name of the key that protects this session's ticket. */
static void key_name(SSL_SESSION *session, uint8_t name[16])
{
    const uint8_t *ticket = NULL;
    size_t length = 0;
    SSL_SESSION_get0_ticket(session, &ticket, &length);
    CHECK_GE(length, 16);
    memcpy(name, ticket, 16);
}

/* Random keys encrypt new tickets for an hour, and decrypt them for two more hours. */
void tickets_rotate(uintptr_t version)
{
    tls_tickets *tickets = tls_tickets_new();
    CHECK(tickets);
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = server_with((int)version, tickets);
    SSL_SESSION *session = NULL;
    bool is_resumed = true;
    tls_problem problem = TLS_PROBLEM_NONE;
    uint8_t first[16];
    uint8_t later[16];
    CHECK_EQ(resume(client, server, &session, &is_resumed, &problem), ENDED);
    key_name(session, first);
    SSL_SESSION *oldest = SSL_SESSION_dup(session);
    advance_clock(30 * MINUTES);
    CHECK_EQ(resume(client, server, &session, &is_resumed, &problem), ENDED);
    CHECK(is_resumed);
    key_name(session, later);
    CHECK_MEMORY(first, later, sizeof first);
    /* The ticket's key is no longer the newest one, so the client gets a new ticket. */
    advance_clock(31 * MINUTES);
    SSL_SESSION *other = NULL;
    CHECK_EQ(resume(client, server, &other, &is_resumed, &problem), ENDED);
    CHECK_EQ(resume(client, server, &session, &is_resumed, &problem), ENDED);
    CHECK(is_resumed);
    key_name(session, later);
    CHECK(memcmp(first, later, sizeof first) != 0);
    /* After three hours a ticket is invalid, even if its client believes that it is new. */
    advance_clock(2 * HOURS);
    establish(oldest, time(NULL));
    CHECK_EQ(resume(client, server, &oldest, &is_resumed, &problem), ENDED);
    CHECK(!is_resumed);
    SSL_SESSION_free(session);
    SSL_SESSION_free(oldest);
    SSL_SESSION_free(other);
    tls_tickets_release(tickets);
    release(client, server);
}

/* Given keys do not change, and decrypt the tickets of every context that has them, such as one of another process. */
void given_tickets_stay(uintptr_t version)
{
    uint8_t keys[3 * TLS_TICKET_KEY_SIZE];
    for (size_t i = 0; i < sizeof keys; i++)
        keys[i] = (uint8_t)(i * i >> 3);
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    SSL_SESSION *session = NULL;
    bool is_resumed = true;
    tls_problem problem = TLS_PROBLEM_NONE;
    uint8_t name[16];
    /* Each server has the key of the server before, and one more. */
    for (int i = 0; i < 2; i++) {
        tls_tickets *tickets = tls_tickets_new();
        CHECK(tickets && tls_tickets_set_keys(tickets, keys + (1 - i) * TLS_TICKET_KEY_SIZE, 2));
        tls_context *server = server_with((int)version, tickets);
        tls_tickets_release(tickets);
        advance_clock(61 * MINUTES);
        CHECK_EQ(resume(client, server, &session, &is_resumed, &problem), ENDED);
        CHECK_EQ(is_resumed, i > 0);
        key_name(session, name);
        CHECK_MEMORY(name, keys + (1 - i) * TLS_TICKET_KEY_SIZE, sizeof name);
        tls_context_release(server);
    }
    tls_tickets *strange = tls_tickets_new();
    CHECK(strange && !tls_tickets_set_keys(strange, keys, 0) && !tls_tickets_set_keys(strange, keys, 17));
    CHECK(tls_tickets_set_keys(strange, keys + 2 * TLS_TICKET_KEY_SIZE, 1));
    tls_context *server = server_with((int)version, strange);
    tls_tickets_release(strange);
    CHECK_EQ(resume(client, server, &session, &is_resumed, &problem), ENDED);
    CHECK(!is_resumed);
    SSL_SESSION_free(session);
    release(client, server);
}

static int make_ticket_long(SSL *ssl, void *argument)
{
    static const uint8_t zeros[3000];
    (void)argument;
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), zeros, sizeof zeros);
}

static SSL_TICKET_RETURN take_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t length,
                                     SSL_TICKET_STATUS status, void *argument)
{
    (void)ssl;
    (void)session;
    (void)name;
    (void)length;
    (void)status;
    (void)argument;
    return SSL_TICKET_RETURN_USE;
}

/* A ticket in several records, of which only the first one has arrived. A send must return TLS_WANTS_INPUT without
 * sending or failing. */
void message_in_parts(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    SSL_CTX_set_max_send_fragment(server->groups[0], 512);
    SSL_CTX_set_session_ticket_cb(server->groups[0], make_ticket_long, take_ticket, NULL);
    conversation c;
    conversation_begin(&c, client, server, 0, 1);
    c.is_whole = true;
    uint8_t out[5000];
    uint8_t plain[100];
    c.client.has_ended = c.server.has_ended = true; /* no bytes yet */
    conversation_shake_hands(&c);
    side_put_kept(&c.server);
    wire *in = &c.to_client;
    CHECK_GT(in->count - in->taken, 3000);
    /* The first record. */
    CHECK_EQ(step_status(tls_connection_receive(c.client.connection, in->bytes + in->taken, 600, plain, sizeof plain)),
             TLS_WANTS_INPUT);
    in->taken += 600;
    tls_step step = tls_connection_send(c.client.connection, (const uint8_t *)"hello", 5, out, sizeof out);
    CHECK_EQ(step_status(step), TLS_WANTS_INPUT);
    CHECK_EQ(step_plain(step), 0);
    CHECK_EQ(step_out(step), 0);
    /* The other records. A receive with a capacity of 0 only keeps them. */
    CHECK_EQ(step_status(
                 tls_connection_receive(c.client.connection, in->bytes + in->taken, in->count - in->taken, plain, 0)),
             TLS_WANTS_INPUT);
    step = tls_connection_send(c.client.connection, (const uint8_t *)"hello", 5, out, sizeof out);
    CHECK_EQ(step_status(step), TLS_DONE);
    CHECK_EQ(step_plain(step), 5);
    tls_step arrived = tls_connection_receive(c.server.connection, out, step_out(step), plain, sizeof plain);
    CHECK_EQ(step_plain(arrived), 5);
    CHECK_MEMORY(plain, "hello", 5);
    conversation_end(&c);
    release(client, server);
}

/* A connection fails if its peer requests answers again and again and does not read them. */
void key_updates(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    conversation c;
    conversation_begin(&c, client, server, 0, 1);
    c.client.has_ended = c.server.has_ended = true;
    conversation_shake_hands(&c);
    uint8_t out[1000];
    uint8_t plain[1000];
    tls_status status = TLS_DONE;
    for (int i = 0; i < 10000 && status != TLS_FAILED; i++) {
        CHECK_EQ(SSL_key_update(c.client.connection->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        tls_step sent = tls_connection_send(c.client.connection, (const uint8_t *)"x", 1, out, sizeof out);
        CHECK_EQ(step_status(sent), TLS_DONE);
        /* Bytes that do not fit are kept. */
        wire_put(&c.to_server, out, step_out(sent));
        side_put_kept(&c.client);
        wire *in = &c.to_server;
        status = step_status(tls_connection_receive(c.server.connection, in->bytes + in->taken, in->count - in->taken,
                                                    plain, sizeof plain));
        in->taken = in->count;
    }
    status = step_status(tls_connection_receive(c.server.connection, NULL, 0, plain, sizeof plain));
    CHECK_EQ(status, TLS_FAILED);
    CHECK_EQ(failure_of(c.server.connection)->problem, TLS_PROBLEM_FLOOD);
    conversation_end(&c);
    release(client, server);
}

/* Both sides change their keys and ask each other to do so, many times, while data goes both ways. */
void keys_change(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    int changes = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        conversation c;
        conversation_begin(&c, client, server, 20000, seed);
        while (conversation_turn(&c)) {
            side *side = next_random(&c.random) % 2 == 0 ? &c.client : &c.server;
            SSL *ssl = side->connection->ssl;
            if (side->phase != OPEN || side->has_ended || next_random(&c.random) % 8 != 0)
                continue;
            int kind = next_random(&c.random) % 2 == 0 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED;
            changes += SSL_key_update(ssl, kind) == 1;
        }
        CHECK_EQ(c.client.phase, ENDED);
        CHECK_EQ(c.server.phase, ENDED);
        CHECK_EQ(c.client.received, 20000);
        CHECK_EQ(c.server.received, 20000);
        conversation_end(&c);
    }
    CHECK_GT(changes, 40);
    release(client, server);
}

/* The last bytes and the end are sealed by one step, as soon as all bytes fit. */
void last_bytes(uintptr_t version)
{
    enum { TOTAL = 3000 };
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    conversation c;
    conversation_begin(&c, client, server, 0, 1);
    c.client.has_ended = c.server.has_ended = true;
    conversation_shake_hands(&c);
    uint8_t sent[TOTAL] = {0};
    uint8_t out[TOTAL];
    uint8_t plain[TOTAL];
    size_t done = 0;
    /* Tickets. */
    wire *in = &c.to_client;
    (void)tls_connection_receive(c.client.connection, in->bytes + in->taken, in->count - in->taken, plain,
                                 sizeof plain);
    in->taken = in->count;
    for (size_t capacity = 1000; done < TOTAL; capacity += 1000) {
        tls_step step = tls_connection_send_last(c.server.connection, sent + done, TOTAL - done, out, capacity);
        CHECK_EQ(step_status(step), TLS_DONE);
        done += step_plain(step);
        CHECK(!step_has_more(step));
        /* The client must not see an end before all bytes were sent. */
        size_t got = step_plain(tls_connection_receive(c.client.connection, out, step_out(step), plain, sizeof plain));
        CHECK_EQ(got, step_plain(step));
        tls_step next = tls_connection_receive(c.client.connection, NULL, 0, plain, sizeof plain);
        CHECK_EQ(step_status(next), done == TOTAL ? TLS_ENDED : TLS_WANTS_INPUT);
    }
    CHECK_EQ(step_status(tls_connection_send(c.server.connection, sent, 1, out, sizeof out)), TLS_SENDING_ENDED);
    /* The end is sent only once. */
    tls_connection_end(c.server.connection);
    CHECK_EQ(step_out(tls_connection_collect(c.server.connection, out, sizeof out)), 0);
    conversation_end(&c);
    release(client, server);
}
