/* names.c - which identity a server shows to a client that asks for a name. Must not know: sockets. */
#include "memory_test.h"
#include "tls_internal.h"

#include <stdlib.h>
#include <string.h>

/* A client that trusts whoever it finds. */
static tls_context *trusting_client(uintptr_t version)
{
    tls_context *client = tls_context_new(TLS_CLIENT);
    CHECK(client && tls_context_versions(client, (int)version, (int)version));
    CHECK(tls_context_verify(client, TLS_PEER_NOT_ASKED));
    return client;
}

/* Begins a conversation whose client asks for a name; NULL: for none. */
static void begin(conversation *c, tls_context *client, tls_context *server, const char *name)
{
    conversation_begin(c, client, server, 0, 1);
    c->is_whole = true;
    c->client.has_ended = c->server.has_ended = true;
    CHECK_EQ(SSL_set_tlsext_host_name(c->client.connection->ssl, name), 1);
}

/* Whether a client that asks for a name sees this certificate; NULL: is refused because the name is not served. */
static bool shows(tls_context *client, tls_context *server, const char *name, const credentials *expected)
{
    conversation c;
    begin(&c, client, server, name);
    conversation_shake_hands(&c);
    bool is_expected;
    if (c.server.phase == FAILED) {
        is_expected = !expected && c.server.problem == TLS_PROBLEM_UNKNOWN_NAME;
        const tls_failure *failure = failure_of(c.server.connection);
        CHECK_EQ(failure->alert_sent, SSL_AD_UNRECOGNIZED_NAME);
        CHECK_EQ(failure_of(c.client.connection)->alert_received, SSL_AD_UNRECOGNIZED_NAME);
    } else {
        tls_certificate *shown = tls_connection_peer_certificate(c.client.connection);
        X509 *wanted = expected ? certificate_of(expected) : NULL;
        is_expected = wanted && shown && X509_cmp(shown, wanted) == 0;
        const char *seen = tls_connection_server_name(c.server.connection);
        CHECK(!name || (seen && strcmp(seen, name) == 0));
        CHECK_EQ(tls_connection_version(c.client.connection), tls_connection_version(c.server.connection));
        CHECK(tls_connection_cipher(c.client.connection) && tls_connection_group(c.client.connection));
        X509_free(wanted);
        tls_certificate_free(shown);
    }
    conversation_end(&c);
    return is_expected;
}

void names_choose(uintptr_t version)
{
    const credentials *usual = usual_credentials();
    const credentials *one = credentials_of("one", "DNS:one.test"), *wild = credentials_of("wild", "DNS:*.wild.test");
    tls_context *client = trusting_client(version), *server = new_server_context(usual, (int)version);
    /* No name is known. */
    CHECK(shows(client, server, "one.test", usual));
    int group = tls_context_add_group(server), other = tls_context_add_group(server);
    CHECK(group == 1 && other == 2);
    CHECK(tls_context_use(server, group, one->identity) && tls_context_use(server, other, wild->identity));
    CHECK(tls_context_add_name(server, "One.Test", group) && tls_context_add_name(server, "*.wild.test", other));
    CHECK(tls_context_add_name(server, "usual.wild.test", 0));
    CHECK(shows(client, server, "one.test", one));
    CHECK(shows(client, server, "ONE.test", one));
    /* A trailing dot, with which the name is absolute (RFC 6066 asks clients to leave it out). */
    CHECK(shows(client, server, "one.test.", one));
    CHECK(shows(client, server, "a.one.test", usual));
    CHECK(shows(client, server, "test", usual));
    CHECK(shows(client, server, ".", usual));
    CHECK(shows(client, server, ".one.test", usual));
    /* "*" stands for one label. A name itself comes before it. */
    CHECK(shows(client, server, "a.wild.test", wild));
    CHECK(shows(client, server, "a.b.wild.test", usual));
    CHECK(shows(client, server, "wild.test", usual));
    CHECK(shows(client, server, "usual.wild.test", usual));
    CHECK(shows(client, server, NULL, usual));
    char longest[256];
    memset(longest, 'a', 255);
    longest[255] = 0;
    CHECK(shows(client, server, longest, usual));
    tls_context_refuse_unknown_names(server);
    CHECK(shows(client, server, "one.test", one));
    CHECK(shows(client, server, "two.test", NULL));
    CHECK(shows(client, server, longest, NULL));
    tls_context_release(client);
    tls_context_release(server);
}

/* Asking the program ********************************************************************************************** */

/* Brings a server to the question for an identity. */
static void ask(conversation *c, tls_context *client, tls_context *server, const char *name)
{
    uint8_t out[4096];
    begin(c, client, server, name);
    tls_step step = tls_connection_handshake(c->client.connection, NULL, 0, out, sizeof out);
    wire_put(&c->to_server, out, step_out(step));
    side_put_kept(&c->client);
    c->has_begun = true;
    wire *in = &c->to_server;
    step = tls_connection_handshake(c->server.connection, in->bytes, in->count, out, sizeof out);
    CHECK_EQ(step_status(step), TLS_WANTS_IDENTITY);
    CHECK_EQ(step_out(step), 0);
    in->taken = in->count;
    /* It asks until there is an answer. */
    step = tls_connection_handshake(c->server.connection, NULL, 0, out, sizeof out);
    CHECK_EQ(step_status(step), TLS_WANTS_IDENTITY);
}

/* After the answer, without further input. Returns the server's problem. */
static tls_problem go_on(conversation *c)
{
    uint8_t out[4096];
    tls_step step = tls_connection_handshake(c->server.connection, NULL, 0, out, sizeof out);
    wire_put(&c->to_client, out, step_out(step));
    side_put_kept(&c->server);
    if (step_status(step) == TLS_FAILED)
        return failure_of(c->server.connection)->problem;
    CHECK_EQ(step_status(step), TLS_WANTS_INPUT);
    conversation_shake_hands(c);
    CHECK(c->client.phase == OPEN && c->server.phase == OPEN);
    return TLS_PROBLEM_NONE;
}

void names_asked(uintptr_t version)
{
    const credentials *usual = usual_credentials(), *one = credentials_of("one", "DNS:one.test");
    tls_context *client = trusting_client(version), *server = new_server_context(usual, (int)version);
    tls_context_ask_identities(server);
    conversation c;
    /* The context's own identity. */
    ask(&c, client, server, "one.test");
    CHECK_EQ(strcmp(tls_connection_name_asked(c.server.connection), "one.test"), 0);
    tls_connection_answer(c.server.connection, TLS_NAME_SERVED);
    CHECK(!tls_connection_name_asked(c.server.connection));
    CHECK_EQ(go_on(&c), TLS_PROBLEM_NONE);
    conversation_end(&c);
    /* One for this connection. */
    for (int asks_for_name = 0; asks_for_name < 2; asks_for_name++) {
        ask(&c, client, server, asks_for_name ? "one.test" : NULL);
        CHECK_EQ(tls_connection_name_asked(c.server.connection) != NULL, asks_for_name);
        CHECK(tls_connection_use(c.server.connection, one->identity));
        CHECK(tls_connection_use(c.server.connection, one->identity));
        tls_connection_answer(c.server.connection, TLS_NAME_SERVED);
        CHECK_EQ(go_on(&c), TLS_PROBLEM_NONE);
        tls_certificate *shown = tls_connection_peer_certificate(c.client.connection);
        CHECK(shown && X509_cmp(shown, one->identity->certificate) == 0);
        tls_certificate_free(shown);
        conversation_end(&c);
    }
    ask(&c, client, server, "one.test");
    tls_connection_answer(c.server.connection, TLS_NAME_UNKNOWN);
    CHECK_EQ(go_on(&c), TLS_PROBLEM_UNKNOWN_NAME);
    CHECK_EQ(failure_of(c.server.connection)->alert_sent, SSL_AD_UNRECOGNIZED_NAME);
    conversation_end(&c);
    ask(&c, client, server, "one.test");
    tls_connection_answer(c.server.connection, TLS_NAME_FAILED);
    CHECK_EQ(go_on(&c), TLS_PROBLEM_INTERNAL);
    CHECK_EQ(failure_of(c.server.connection)->alert_sent, SSL_AD_INTERNAL_ERROR);
    conversation_end(&c);
    /* The connection is closed before the answer. */
    ask(&c, client, server, "one.test");
    tls_connection_close(c.server.connection);
    CHECK(!tls_connection_name_asked(c.server.connection));
    CHECK(!tls_connection_use(c.server.connection, one->identity));
    tls_connection_answer(c.server.connection, TLS_NAME_SERVED);
    conversation_end(&c);
    tls_context_release(client);
    tls_context_release(server);
}

/* A ClientHello whose name was changed on its way: with a NUL in it, of another type, or in a list of another
 * length. */
static const char *name_of_changed_hello(tls_context *client, tls_context *server, int at, uint8_t value)
{
    static char name[300];
    static const uint8_t sought[] = "one.test";
    uint8_t out[4096];
    conversation c;
    begin(&c, client, server, "one.test");
    tls_step step = tls_connection_handshake(c.client.connection, NULL, 0, out, sizeof out);
    uint8_t *found = memmem(out, step_out(step), sought, sizeof sought - 1);
    CHECK(found);
    found[at] = value;
    uint8_t answer[4096];
    step = tls_connection_handshake(c.server.connection, out, step_out(step), answer, sizeof answer);
    CHECK_EQ(step_status(step), TLS_WANTS_IDENTITY);
    const char *asked = tls_connection_name_asked(c.server.connection);
    (void)snprintf(name, sizeof name, "%s", asked ? asked : "");
    conversation_end(&c);
    return asked ? name : NULL;
}

void names_changed(uintptr_t version)
{
    tls_context *client = trusting_client(version), *server = new_server_context(usual_credentials(), (int)version);
    tls_context_ask_identities(server);
    CHECK_EQ(strcmp(name_of_changed_hello(client, server, 0, 'O'), "One.test"), 0);
    CHECK(!name_of_changed_hello(client, server, 3, 0));
    CHECK(!name_of_changed_hello(client, server, -3, 1)); /* its type */
    CHECK(!name_of_changed_hello(client, server, -1, 7)); /* its length */
    CHECK(!name_of_changed_hello(client, server, -2, 1));
    tls_context_release(client);
    tls_context_release(server);
}
