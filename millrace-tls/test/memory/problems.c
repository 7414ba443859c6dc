/* problems.c - why connections fail, and what they are before and after that. Must not know: sockets. */
#include "memory_test.h"
#include "mutation.h"
#include "tls_internal.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void release(tls_context *client, tls_context *server)
{
    tls_context_release(client);
    tls_context_release(server);
}

/* Runs a conversation whose handshake fails for these reasons; *alert: the one that the server has sent. */
static void check_problems(tls_context *client, tls_context *server, tls_problem of_client, tls_problem of_server,
                           int alert)
{
    conversation c;
    conversation_begin(&c, client, server, 10, 1);
    conversation_run(&c);
    CHECK_EQ(c.client.problem, of_client);
    CHECK_EQ(c.server.problem, of_server);
    if (of_client == TLS_PROBLEM_ALERT) {
        CHECK_EQ(failure_of(c.server.connection)->alert_sent, alert);
        CHECK_EQ(failure_of(c.client.connection)->alert_received, alert);
    }
    /* A failed connection stays as it is. */
    uint8_t byte = 0;
    CHECK_EQ(step_status(tls_connection_handshake(c.server.connection, &byte, 1, &byte, 1)), TLS_FAILED);
    CHECK_EQ(step_status(tls_connection_receive(c.server.connection, &byte, 1, &byte, 1)), TLS_FAILED);
    CHECK_EQ(step_status(tls_connection_send_later(c.server.connection, &byte, 1)), TLS_FAILED);
    tls_connection_end(c.server.connection);
    CHECK_EQ(failure_of(c.server.connection)->problem, of_server);
    conversation_end(&c);
}

/* Client and server have nothing in common. */
void nothing_in_common(uintptr_t unused)
{
    (void)unused;
    const credentials *own = usual_credentials();
    tls_context *client = new_client_context(own, VERSION_1_2), *server = new_server_context(own, VERSION_1_3);
    check_problems(client, server, TLS_PROBLEM_ALERT, TLS_PROBLEM_NO_VERSION, SSL_AD_PROTOCOL_VERSION);
    release(client, server);
    client = new_client_context(own, VERSION_1_2);
    server = new_server_context(own, VERSION_1_2);
    CHECK(tls_context_ciphers(client, NULL, "ECDHE-ECDSA-AES128-GCM-SHA256"));
    CHECK(tls_context_ciphers(server, NULL, "ECDHE-ECDSA-AES256-GCM-SHA384"));
    check_problems(client, server, TLS_PROBLEM_ALERT, TLS_PROBLEM_NO_CIPHER, SSL_AD_HANDSHAKE_FAILURE);
    release(client, server);
    client = new_client_context(own, VERSION_1_3);
    server = new_server_context(own, VERSION_1_3);
    CHECK(tls_context_groups(client, "X25519") && tls_context_groups(server, "P-256"));
    check_problems(client, server, TLS_PROBLEM_ALERT, TLS_PROBLEM_NO_CIPHER, SSL_AD_HANDSHAKE_FAILURE);
    release(client, server);
    /* A client without a certificate. */
    client = new_client_context(own, VERSION_1_2);
    server = new_server_context(own, VERSION_1_2);
    CHECK(tls_context_verify(server, TLS_PEER_REQUIRED));
    check_problems(client, server, TLS_PROBLEM_ALERT, TLS_PROBLEM_NO_CERTIFICATE, SSL_AD_HANDSHAKE_FAILURE);
    release(client, server);
}

static void check_first_bytes(const char *bytes, size_t length, tls_problem expected)
{
    tls_context *context = new_server_context(usual_credentials(), VERSION_1_3);
    tls_connection *server = tls_connection_new(context);
    tls_context_release(context);
    CHECK(server);
    uint8_t out[4096];
    tls_step step = tls_connection_handshake(server, (const uint8_t *)bytes, length, out, sizeof out);
    CHECK_EQ(step_status(step), expected == TLS_PROBLEM_NONE ? TLS_WANTS_INPUT : TLS_FAILED);
    const tls_failure *failure = tls_connection_failure(server);
    CHECK_EQ(failure ? failure->problem : TLS_PROBLEM_NONE, expected);
    tls_connection_free(server);
}

#define CHECK_FIRST_BYTES(bytes, expected) check_first_bytes(bytes, sizeof bytes - 1, expected)

void other_protocols(uintptr_t unused)
{
    (void)unused;
    CHECK_FIRST_BYTES("", TLS_PROBLEM_NONE);
    CHECK_FIRST_BYTES("GET", TLS_PROBLEM_NONE);
    CHECK_FIRST_BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n", TLS_PROBLEM_PLAIN_HTTP);
    CHECK_FIRST_BYTES("POST / HTTP/1.1\r\nHost: a\r\n\r\n", TLS_PROBLEM_PLAIN_HTTP);
    CHECK_FIRST_BYTES("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", TLS_PROBLEM_PLAIN_HTTP);
    CHECK_FIRST_BYTES("SSH-2.0-OpenSSH_9.2\r\n", TLS_PROBLEM_NOT_TLS);
    CHECK_FIRST_BYTES("\x16\x03\x01\0\x04\x01\0\0\0", TLS_PROBLEM_VIOLATION);
    /* An alert instead of a ClientHello. */
    CHECK_FIRST_BYTES("\x15\x03\x03\0\x02\x01\0", TLS_PROBLEM_VIOLATION);
    CHECK_FIRST_BYTES("\x15\x03\x03\0\x02\x02\x28", TLS_PROBLEM_VIOLATION);
}

/* The end of the peer's side is no end of a handshake. */
void end_during_handshake(uintptr_t version)
{
    tls_context *context = new_client_context(usual_credentials(), (int)version);
    tls_connection *client = tls_connection_new(context);
    tls_context_release(context);
    CHECK(client);
    uint8_t out[4096];
    CHECK_EQ(step_status(tls_connection_handshake(client, NULL, 0, out, sizeof out)), TLS_WANTS_INPUT);
    static const uint8_t close_notify[] = {21, 3, 3, 0, 2, 1, 0};
    tls_step step = tls_connection_handshake(client, close_notify, sizeof close_notify, out, sizeof out);
    CHECK_EQ(step_status(step), TLS_FAILED);
    const tls_failure *failure = failure_of(client);
    CHECK_EQ(failure->problem, TLS_PROBLEM_ALERT);
    CHECK_EQ(strcmp(failure->detail, "close_notify during the handshake"), 0);
    CHECK(tls_connection_is_over(client) && tls_connection_has_input(client));
    tls_connection_free(client);
}

/* Brings both sides into the state where they can send, with nothing under way. */
static void open_both(conversation *c, tls_context *client, tls_context *server)
{
    conversation_begin(c, client, server, 0, 1);
    c->is_whole = true;
    c->client.has_ended = c->server.has_ended = true;
    conversation_shake_hands(c);
    side_put_kept(&c->server);
    uint8_t plain[100];
    wire *in = &c->to_client;
    (void)tls_connection_receive(c->client.connection, in->bytes + in->taken, in->count - in->taken, plain,
                                 sizeof plain);
    in->taken = in->count;
}

/* A record of another version, unencrypted, behind the handshake. */
void violation_after_handshake(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    static const uint8_t strange[] = {23, 9, 9, 0, 5, 'h', 'e', 'l', 'l', 'o'}, forged[] = {21, 3, 3, 0, 2, 2, 40};
    uint8_t plain[100];
    conversation c;
    open_both(&c, client, server);
    tls_step step = tls_connection_receive(c.client.connection, strange, sizeof strange, plain, sizeof plain);
    CHECK_EQ(step_status(step), TLS_FAILED);
    CHECK_EQ(failure_of(c.client.connection)->problem, TLS_PROBLEM_VIOLATION);
    /* An alert that the other side has not sealed is no alert. */
    step = tls_connection_receive(c.server.connection, forged, sizeof forged, plain, sizeof plain);
    CHECK_EQ(step_status(step), TLS_FAILED);
    const tls_failure *failure = failure_of(c.server.connection);
    CHECK(failure->problem == TLS_PROBLEM_VIOLATION && failure->alert_received == -1);
    conversation_end(&c);
    release(client, server);
}

/* Bytes that were put back come first again, in both directions. */
void put_back(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    conversation c;
    open_both(&c, client, server);
    uint8_t out[1000], plain[100];
    CHECK(!tls_connection_has_input(c.server.connection));
    tls_step step = tls_connection_send(c.client.connection, (const uint8_t *)"hello world", 11, out, sizeof out);
    size_t sealed = step_out(step);
    tls_connection_put_back(c.client.connection, out, 0);
    tls_connection_put_back(c.client.connection, out + 5, sealed - 5);
    tls_connection_put_back(c.client.connection, out, 5);
    step = tls_connection_collect(c.client.connection, out, 10);
    CHECK(step_out(step) == 10 && step_has_more(step));
    step = tls_connection_collect(c.client.connection, out + 10, sizeof out - 10);
    CHECK(step_out(step) == sealed - 10 && !step_has_more(step));
    step = tls_connection_receive(c.server.connection, out, sealed, plain, 5);
    CHECK(step_plain(step) == 5 && memcmp(plain, "hello", 5) == 0);
    CHECK(tls_connection_has_input(c.server.connection));
    tls_connection_unread(c.server.connection, plain, 0);
    tls_connection_unread(c.server.connection, (const uint8_t *)"lo", 2);
    tls_connection_unread(c.server.connection, (const uint8_t *)"hel", 3);
    /* In place, with older bytes before new ones. */
    step = tls_connection_receive_in_place(c.server.connection, plain, 0, sizeof plain);
    CHECK(step_plain(step) == 11 && memcmp(plain, "hello world", 11) == 0);
    CHECK(!tls_connection_has_input(c.server.connection));
    conversation_end(&c);
    release(client, server);
}

/* A file arrives as it is: whole, in part, and behind its end. */
void send_files(uintptr_t version)
{
    enum { SIZE = 40000 };
    static uint8_t bytes[SIZE], out[TLS_RECORD_BUFFER_SIZE], plain[SIZE];
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    const char *name;
    int file = temporary_file(&name);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = byte_at(i);
    CHECK_EQ(write(file, bytes, SIZE), SIZE);
    conversation c;
    open_both(&c, client, server);
    static const size_t offsets[] = {0, 1, SIZE - 10, SIZE};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        tls_step step = tls_connection_send_file(c.client.connection, file, (int64_t)offsets[i], SIZE, out, sizeof out);
        CHECK_EQ(step_status(step), TLS_DONE);
        CHECK_EQ(step_plain(step), SIZE - offsets[i]);
        CHECK_EQ(step_out(step) > 0, step_plain(step) > 0);
        tls_step arrived = tls_connection_receive(c.server.connection, out, step_out(step), plain, sizeof plain);
        CHECK_EQ(step_plain(arrived), SIZE - offsets[i]);
        CHECK_MEMORY(plain, bytes + offsets[i], step_plain(arrived));
    }
    /* A part, into memory for less than that. */
    tls_step step = tls_connection_send_file(c.client.connection, file, 5, 1000, out, 500);
    CHECK(step_plain(step) > 0 && step_plain(step) < 500);
    tls_step arrived = tls_connection_receive(c.server.connection, out, step_out(step), plain, sizeof plain);
    CHECK_EQ(step_plain(arrived), step_plain(step));
    CHECK_MEMORY(plain, bytes + 5, step_plain(arrived));
    step = tls_connection_send_file(c.client.connection, -1, 0, 10, out, sizeof out);
    CHECK(step_status(step) == TLS_BAD_FILE && step_plain(step) == EBADF && step_out(step) == 0);
    tls_connection_end(c.client.connection);
    step = tls_connection_send_file(c.client.connection, file, 0, 10, out, sizeof out);
    CHECK_EQ(step_status(step), TLS_SENDING_ENDED);
    conversation_end(&c);
    release(client, server);
    MUST(close(file));
}

/* More than one record, and memory that is too small, seal nothing. */
void in_place_limits(uintptr_t version)
{
    static uint8_t buffer[20000];
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    conversation c;
    open_both(&c, client, server);
    tls_step step = tls_connection_send_in_place(c.client.connection, buffer, 16385, sizeof buffer);
    CHECK(step_status(step) == TLS_DONE && step_plain(step) == 0 && step_out(step) == 0);
    step = tls_connection_send_in_place(c.client.connection, buffer, 100, 150);
    CHECK(step_status(step) == TLS_DONE && step_plain(step) == 0 && step_out(step) == 0);
    step = tls_connection_send_in_place(c.client.connection, buffer, 16384, sizeof buffer);
    CHECK(step_status(step) == TLS_DONE && step_plain(step) == 16384 && step_out(step) > 16384);
    conversation_end(&c);
    release(client, server);
}

/* A client may expect an address, and ask for no name then. What it expects is part of the certificate. */
void expected_addresses(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    CHECK(tls_context_resume(client));
    for (int is_right = 0; is_right < 2; is_right++) {
        tls_connection *connection = tls_connection_new(client);
        CHECK(connection && tls_connection_expect(connection, is_right ? "127.0.0.1" : "127.0.0.2"));
        CHECK(!SSL_get_servername(connection->ssl, TLSEXT_NAMETYPE_host_name));
        conversation c;
        conversation_begin(&c, client, server, 10, 1);
        tls_connection_free(c.client.connection);
        c.client.connection = connection;
        conversation_run(&c);
        CHECK_EQ(c.client.phase, is_right ? ENDED : FAILED);
        if (!is_right)
            CHECK_EQ(failure_of(connection)->verify_result, X509_V_ERR_IP_ADDRESS_MISMATCH);
        conversation_end(&c);
    }
    /* A name that is too long for TLS. */
    static char name[300];
    memset(name, 'a', sizeof name - 1);
    tls_connection *connection = tls_connection_new(client);
    CHECK(connection && !tls_connection_expect(connection, name));
    CHECK_EQ(ERR_peek_error(), 0);
    tls_connection_free(connection);
    release(client, server);
}

/* The session that a new client of this server would offer; NULL: none. */
static const SSL_SESSION *offered_session(tls_context *client, int server)
{
    char name[20];
    (void)snprintf(name, sizeof name, "%d.test", server);
    tls_connection *connection = tls_connection_new(client);
    CHECK(connection && tls_connection_expect(connection, name));
    const SSL_SESSION *session = SSL_get_session(connection->ssl);
    tls_connection_free(connection);
    return session; /* only to be compared */
}

/* A copy of a session, which the client's connection has got from this server, and got twice. */
static SSL_SESSION *keep_copy(tls_connection *connection, SSL_SESSION *session, int server)
{
    char name[20];
    (void)snprintf(name, sizeof name, "%d.test", server);
    SSL_SESSION *copy = SSL_SESSION_dup(session);
    free(connection->expected);
    connection->expected = strdup(name);
    CHECK(copy && connection->expected);
    tls_sessions_keep(connection, copy);
    tls_sessions_keep(connection, copy);
    return copy;
}

/* Of each name four sessions are kept, of all names 256: the newest ones. */
void sessions_are_limited(uintptr_t version)
{
    enum { OF_NAME = 6, OF_NAME_MAX = 4, NAMES = 260, NAMES_MAX = 256 };
    SSL_SESSION *copies[NAMES];
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    conversation c;
    open_both(&c, client, server);
    SSL_SESSION *session = SSL_get1_session(c.client.connection->ssl);
    CHECK(session && SSL_SESSION_is_resumable(session));
    CHECK(tls_context_resume(client));
    tls_sessions_keep(c.client.connection, session); /* without effect: no server is expected */
    for (int i = 0; i < OF_NAME; i++)
        copies[i] = keep_copy(c.client.connection, session, 0);
    /* The newest one first. In TLS 1.3 each is offered once. */
    for (int i = 0; i < OF_NAME; i++)
        CHECK(offered_session(client, 0) == (i < OF_NAME_MAX ? copies[OF_NAME - 1 - i] : NULL));
    for (int i = 0; i < OF_NAME; i++)
        SSL_SESSION_free(copies[i]);
    for (int i = 0; i < NAMES; i++)
        copies[i] = keep_copy(c.client.connection, session, i);
    for (int i = 0; i < NAMES; i++)
        CHECK(offered_session(client, i) == (i < NAMES - NAMES_MAX ? NULL : copies[i]));
    for (int i = 0; i < NAMES; i++)
        SSL_SESSION_free(copies[i]);
    SSL_SESSION_free(session);
    conversation_end(&c);
    release(client, server);
}
