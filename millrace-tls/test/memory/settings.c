/* settings.c - contexts: what is refused, trust, application protocols, tickets, the log of secrets. Must not know:
 * sockets. */
#include "memory_test.h"
#include "tls_internal.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void release(tls_context *client, tls_context *server)
{
    tls_context_release(client);
    tls_context_release(server);
}

/* Runs a whole conversation, and returns the client's last phase; *client_problem and *server_problem: why they
 * failed. */
static phase run(tls_context *client, tls_context *server, tls_problem *client_problem, tls_problem *server_problem)
{
    conversation c;
    conversation_begin(&c, client, server, 100, 1);
    c.is_whole = true;
    conversation_run(&c);
    *client_problem = c.client.problem;
    *server_problem = c.server.problem;
    phase last = c.client.phase;
    conversation_end(&c);
    return last;
}

static void check_runs(tls_context *client, tls_context *server)
{
    tls_problem of_client, of_server;
    CHECK_EQ(run(client, server, &of_client, &of_server), ENDED);
    CHECK(of_client == TLS_PROBLEM_NONE && of_server == TLS_PROBLEM_NONE);
}

static void check_last_error(void)
{
    char words[100] = "";
    size_t length = tls_last_error(words, sizeof words);
    CHECK(length > 0 && length <= sizeof words);
    CHECK_EQ(tls_last_error(words, sizeof words), 0);
}

void settings_refused(uintptr_t unused)
{
    (void)unused;
    tls_context *server = new_server_context(usual_credentials(), VERSION_1_3);
    CHECK(!tls_context_versions(server, 0x999, VERSION_1_3));
    CHECK(!tls_context_versions(server, VERSION_1_2, 0x999));
    CHECK(!tls_context_ciphers(server, "NO_CIPHER", NULL));
    check_last_error();
    CHECK(!tls_context_ciphers(server, NULL, "NO-CIPHER"));
    check_last_error();
    CHECK(tls_context_ciphers(server, NULL, NULL));
    CHECK(!tls_context_groups(server, "no group"));
    CHECK_GT(strlen(tls_verify_words(X509_V_ERR_CERT_HAS_EXPIRED)), 0);
    tls_context_release(server);
}

/* Application protocols ******************************************************************************************* */

static bool negotiates(tls_context *client, tls_context *server, const char *expected)
{
    const uint8_t *name = NULL;
    conversation c;
    conversation_begin(&c, client, server, 0, 1);
    conversation_shake_hands(&c);
    CHECK(c.client.phase == OPEN && c.server.phase == OPEN);
    size_t length = tls_connection_protocol(c.client.connection, &name);
    bool is_expected = length == strlen(expected) && memcmp(name ? name : (const uint8_t *)"", expected, length) == 0;
    CHECK_EQ(tls_connection_protocol(c.server.connection, &name), length);
    conversation_end(&c);
    return is_expected;
}

void protocols(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    CHECK(tls_context_protocols(server, (const uint8_t *)"\2h2\10http/1.1", 12));
    CHECK(negotiates(client, server, ""));
    CHECK(tls_context_protocols(client, (const uint8_t *)"\10http/1.1\2h2", 12));
    CHECK(negotiates(client, server, "h2"));
    CHECK(tls_context_protocols(client, (const uint8_t *)"\3ftp\10http/1.1", 13));
    CHECK(negotiates(client, server, "http/1.1"));
    CHECK(!tls_context_protocols(client, (const uint8_t *)"\11http", 5));
    CHECK(tls_context_protocols(client, (const uint8_t *)"\3ftp", 4));
    tls_problem of_client, of_server;
    CHECK_EQ(run(client, server, &of_client, &of_server), FAILED);
    CHECK(of_client == TLS_PROBLEM_ALERT && of_server == TLS_PROBLEM_NO_PROTOCOL);
    release(client, server);
}

/* Trust *********************************************************************************************************** */

/* Ways to break PEM after a good part. */
static void check_pem(int (*add)(tls_context *, const uint8_t *, size_t), const uint8_t *pem, size_t length)
{
    tls_context *server = new_server_context(usual_credentials(), VERSION_1_3);
    uint8_t twice[4000];
    CHECK_LE(2 * length, sizeof twice);
    memcpy(twice, pem, length);
    memcpy(twice + length, pem, length);
    CHECK_EQ(add(server, pem, 0), 0);
    CHECK_EQ(add(server, (const uint8_t *)"a comment", 9), 0);
    CHECK_EQ(add(server, twice, 2 * length), 2);
    CHECK_EQ(add(server, twice, 2 * length - 40), -1);
    twice[length / 2] = 0;
    CHECK_EQ(add(server, twice, length), -1);
    CHECK_EQ(add(server, pem, (size_t)INT32_MAX + 1), -1);
    tls_context_release(server);
}

/* A revocation list, in PEM, in which the authority revokes the certificates of these serial numbers; 0: none. */
static size_t make_list(const credentials *authority, long revoked, uint8_t *pem, size_t capacity)
{
    X509_CRL *list = X509_CRL_new();
    X509 *issuer = certificate_of(authority);
    EVP_PKEY *key = key_of(authority);
    ASN1_TIME *from = X509_gmtime_adj(NULL, -60), *until = X509_gmtime_adj(NULL, 86400);
    CHECK(list && from && until && X509_CRL_set_version(list, 1) == 1);
    CHECK(X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer)) == 1);
    CHECK(X509_CRL_set1_lastUpdate(list, from) == 1 && X509_CRL_set1_nextUpdate(list, until) == 1);
    if (revoked != 0) {
        X509_REVOKED *entry = X509_REVOKED_new();
        ASN1_INTEGER *serial = ASN1_INTEGER_new();
        CHECK(entry && serial && ASN1_INTEGER_set(serial, revoked) == 1);
        CHECK(X509_REVOKED_set_serialNumber(entry, serial) == 1 && X509_REVOKED_set_revocationDate(entry, from) == 1);
        CHECK_EQ(X509_CRL_add0_revoked(list, entry), 1);
        ASN1_INTEGER_free(serial);
    }
    CHECK_GT(X509_CRL_sign(list, key, EVP_sha256()), 0);
    BIO *memory = BIO_new(BIO_s_mem());
    CHECK(memory && PEM_write_bio_X509_CRL(memory, list) == 1);
    char *bytes = NULL;
    size_t length = (size_t)BIO_get_mem_data(memory, &bytes);
    CHECK_LE(length, capacity);
    memcpy(pem, bytes, length);
    BIO_free(memory);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    EVP_PKEY_free(key);
    X509_free(issuer);
    X509_CRL_free(list);
    return length;
}

void trust(uintptr_t version)
{
    const credentials *authority = credentials_of("authority", NULL);
    const credentials *own = credentials_from(authority, "own", "DNS:localhost");
    uint8_t none[2000], all[2000];
    size_t none_length = make_list(authority, 0, none, sizeof none),
           all_length = make_list(authority, 1, all, sizeof all);
    check_pem(tls_context_trust, authority->certificate, authority->certificate_length);
    check_pem(tls_context_revoke, none, none_length);

    tls_context *client = new_client_context(authority, (int)version), *server = new_server_context(own, (int)version);
    check_runs(client, server);
    CHECK_EQ(tls_context_revoke(client, none, none_length), 1);
    check_runs(client, server);
    tls_context_release(client);
    client = new_client_context(authority, (int)version);
    CHECK_EQ(tls_context_revoke(client, all, all_length), 1);
    conversation c;
    conversation_begin(&c, client, server, 10, 1);
    conversation_run(&c);
    const tls_failure *failure = tls_connection_failure(c.client.connection);
    CHECK(failure && failure->problem == TLS_PROBLEM_CERTIFICATE);
    CHECK(failure->verify_result == X509_V_ERR_CERT_REVOKED && failure->depth == 0 && failure->certificate);
    CHECK_EQ(failure->alert_sent, SSL_AD_CERTIFICATE_REVOKED);
    conversation_end(&c);
    release(client, server);
}

/* A server that asks for a certificate, or requires one. */
void client_certificates(uintptr_t version)
{
    const credentials *own = usual_credentials();
    tls_context *client = new_client_context(own, (int)version), *server = new_server_context(own, (int)version);
    CHECK_EQ(tls_context_trust(server, own->certificate, own->certificate_length), 1);
    CHECK(tls_context_verify(server, TLS_PEER_ASKED));
    check_runs(client, server);
    CHECK(tls_context_use(client, 0, own->identity));
    CHECK(tls_context_verify(server, TLS_PEER_REQUIRED));
    conversation c;
    conversation_begin(&c, client, server, 0, 1);
    conversation_shake_hands(&c);
    tls_certificate *shown = tls_connection_peer_certificate(c.server.connection);
    CHECK(shown && X509_cmp(shown, own->identity->certificate) == 0);
    tls_certificate_free(shown);
    conversation_end(&c);
    /* One that the server does not trust. */
    tls_context *stranger = new_client_context(own, (int)version);
    CHECK(tls_context_use(stranger, 0, credentials_of("other", NULL)->identity));
    tls_problem of_client, of_server;
    CHECK_EQ(run(stranger, server, &of_client, &of_server), FAILED);
    CHECK(of_client == TLS_PROBLEM_ALERT && of_server == TLS_PROBLEM_CERTIFICATE);
    tls_context_release(stranger);
    release(client, server);
}

/* The file of the test. */
static char file_name[] = "/tmp/millrace-tls-XXXXXX";

static void remove_file(void)
{
    (void)unlink(file_name);
}

int temporary_file(const char **name)
{
    memcpy(file_name + sizeof file_name - 1 - 6, "XXXXXX", 6); /* with faults a test runs twice in a process */
    int file = MUST(mkstemp(file_name));
    CHECK_EQ(atexit(remove_file), 0);
    *name = file_name;
    return file;
}

/* The authorities of the machine are read again when their file has changed. */
void trust_in_system(uintptr_t version)
{
    const credentials *own = usual_credentials();
    const char *name;
    int file = temporary_file(&name);
    MUST(setenv("SSL_CERT_FILE", "/nowhere/file", 1));
    MUST(setenv("SSL_CERT_DIR", "/nowhere", 1));
    tls_context *server = new_server_context(own, (int)version);
    tls_problem of_client, of_server;
    for (int round = 0; round < 3; round++) {
        tls_context *client = tls_context_new(TLS_CLIENT);
        CHECK(client && tls_context_verify(client, TLS_PEER_REQUIRED));
        CHECK(tls_context_trust_system(client));
        CHECK_EQ(run(client, server, &of_client, &of_server), round == 2 ? ENDED : FAILED);
        CHECK_EQ(of_client, round == 2 ? TLS_PROBLEM_NONE : TLS_PROBLEM_CERTIFICATE);
        tls_context_release(client);
        if (round == 0)
            MUST(setenv("SSL_CERT_FILE", name, 1));
        else if (round == 1)
            CHECK_EQ(write(file, own->certificate, own->certificate_length), (ssize_t)own->certificate_length);
    }
    tls_context *again = tls_context_new(TLS_CLIENT);
    CHECK(again && tls_context_trust_system(again));
    tls_context_release(again);
    tls_context_release(server);
    MUST(close(file));
}

/* Tickets, secrets, memory **************************************************************************************** */

void no_tickets(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    tls_context_refuse_tickets(server);
    CHECK(tls_context_resume(client));
    for (int i = 0; i < 2; i++) {
        conversation c;
        conversation_begin(&c, client, server, 10, 1);
        conversation_run(&c);
        CHECK(c.client.phase == ENDED && !tls_connection_is_resumed(c.client.connection));
        CHECK(!tls_connection_holds_back(c.server.connection));
        conversation_end(&c);
    }
    release(client, server);
}

/* The secrets of both sides are in the file, each in a line; a second file replaces it. */
void log_of_secrets(uintptr_t version)
{
    tls_context *client = new_client_context(usual_credentials(), (int)version);
    tls_context *server = new_server_context(usual_credentials(), (int)version);
    const char *name;
    int file = temporary_file(&name);
    CHECK(!tls_context_log_keys(client, "/nowhere/file"));
    CHECK_EQ(errno, ENOENT);
    CHECK(tls_context_log_keys(client, "/dev/null"));
    CHECK(tls_context_log_keys(client, name) && tls_context_log_keys(server, name));
    check_runs(client, server);
    static char text[8000];
    ssize_t length = read(file, text, sizeof text - 1);
    CHECK_GT(length, 0);
    CHECK_EQ(text[length - 1], '\n');
    const char *label = version == VERSION_1_2 ? "CLIENT_RANDOM " : "CLIENT_TRAFFIC_SECRET_0 ";
    char *first = strstr(text, label);
    CHECK(first);
    /* The other side logs the same line. */
    size_t line = strcspn(first, "\n");
    char *second = strstr(first + 1, label);
    CHECK(second && strncmp(first, second, line + 1) == 0);
    release(client, server);
    MUST(close(file));
}

void record_buffers(uintptr_t unused)
{
    (void)unused;
    enum { COUNT = 12 };
    uint8_t *buffers[COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            buffers[i] = tls_record_buffer_alloc();
            CHECK(buffers[i]);
            memset(buffers[i], i, TLS_RECORD_BUFFER_SIZE);
        }
        for (int i = 0; i < COUNT; i++) {
            CHECK(buffers[i][0] == i && buffers[i][TLS_RECORD_BUFFER_SIZE - 1] == i);
            tls_record_buffer_free(buffers[i]);
        }
    }
    tls_record_buffer_free(NULL);
}
