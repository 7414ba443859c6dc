/* http3_tls.c - certificates and TLS sessions, by GnuTLS. Must not know: GHC, sockets. */
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http3_internal.h"

/* QUIC needs TLS 1.3. Without the compatibility mode the client sends no empty session ID (RFC 9001, section 8.4). */
#define PRIORITY                                                                                      \
    "%DISABLE_TLS13_COMPAT_MODE:NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:" \
    "+CHACHA20-POLY1305:-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:+GROUP-SECP521R1"

static gnutls_priority_t priority;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_priority(void)
{
    if (gnutls_priority_init(&priority, PRIORITY, NULL) != 0)
        priority = NULL;
}

http3_credentials *http3_credentials_new(void)
{
    http3_credentials *credentials = calloc(1, sizeof *credentials);
    if (credentials == NULL)
        return NULL;
    atomic_store(&credentials->shares, 1);
    if (gnutls_certificate_allocate_credentials(&credentials->certificates) != 0) {
        free(credentials);
        return NULL;
    }
    return credentials;
}

http3_credentials *http3_credentials_share(http3_credentials *credentials)
{
    atomic_fetch_add(&credentials->shares, 1);
    return credentials;
}

void http3_credentials_free(http3_credentials *credentials)
{
    if (credentials == NULL || atomic_fetch_sub(&credentials->shares, 1) > 1)
        return;
    gnutls_certificate_free_credentials(credentials->certificates);
    free(credentials);
}

const char *http3_error_text(int error)
{
    return gnutls_strerror(error);
}

void http3_libraries(char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "ngtcp2 %s, nghttp3 %s, GnuTLS %s", ngtcp2_version(0)->version_str,
                   nghttp3_version(0)->version_str, gnutls_check_version(NULL));
}

#define CHAIN_MAX 16u
#define NAMES_MAX 64

/* Adds a chain for these names. Takes the key, unless it fails. */
static int add_key(http3_credentials *credentials, const gnutls_datum_t *chain, gnutls_privkey_t key,
                   const char **names, int name_count)
{
    gnutls_pcert_st certificates[CHAIN_MAX];
    unsigned count = CHAIN_MAX;
    int result = gnutls_pcert_list_import_x509_raw(certificates, &count, chain, GNUTLS_X509_FMT_PEM, 0);
    if (result < 0)
        return result;
    result = gnutls_certificate_set_key(credentials->certificates, name_count > 0 ? names : NULL, name_count,
                                        certificates, (int)count, key);
    if (result < 0)
        for (unsigned i = 0; i < count; i++)
            gnutls_pcert_deinit(&certificates[i]);
    return result;
}

int http3_credentials_add(http3_credentials *credentials, const uint8_t *chain, size_t chain_length, const uint8_t *key,
                          size_t key_length, const char *names, size_t names_length)
{
    gnutls_datum_t chain_text = {(uint8_t *)chain, (unsigned)chain_length}; /* NOLINT: GnuTLS does not write */
    gnutls_datum_t key_text = {(uint8_t *)key, (unsigned)key_length};       /* NOLINT: the same */
    const char *list[NAMES_MAX];
    int count = 0;
    for (size_t at = 0; at < names_length && count < NAMES_MAX; at += strlen(names + at) + 1)
        list[count++] = names + at;
    gnutls_privkey_t private_key;
    int result = gnutls_privkey_init(&private_key);
    if (result < 0)
        return result;
    result = gnutls_privkey_import_x509_raw(private_key, &key_text, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (result >= 0)
        result = add_key(credentials, &chain_text, private_key, list, count);
    if (result < 0) {
        gnutls_privkey_deinit(private_key);
        return result;
    }
    return 0;
}

int http3_random(uint8_t *bytes, size_t length)
{
    return gnutls_rnd(GNUTLS_RND_RANDOM, bytes, length) == 0 ? 0 : -1;
}

int http3_make_ticket_key(uint8_t *key, const uint8_t *secret)
{
    static const char purpose[] = "millrace session tickets";
    return gnutls_hmac_fast(GNUTLS_MAC_SHA512, secret, HTTP3_SECRET_LENGTH, purpose, sizeof purpose - 1, key) == 0 ? 0
                                                                                                                   : -1;
}

/* A client must offer "h3": otherwise it gets the alert no_application_protocol (RFC 9001, section 8.1). */
static int check_hello(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                       const gnutls_datum_t *message)
{
    gnutls_datum_t chosen;
    (void)type, (void)when, (void)incoming, (void)message;
    return gnutls_alpn_get_selected_protocol(session, &chosen) == 0 ? 0 : GNUTLS_E_NO_APPLICATION_PROTOCOL;
}

/* ------------------------------------------------------------------------------------------------------------------
 * 0-RTT
 *
 * GnuTLS asks whether it may accept a client's early data: only if the ticket is younger than its record of the time.
 * It would renew this record whenever its window is over, and so refuse nearly all tickets of a busy server. So the
 * window here is longer than any record is used, and there is a new record every hour, which is used from the hour
 * after that on: then all tickets are younger, because GnuTLS's tickets are valid for an hour. GnuTLS gives each early
 * handshake an ID, and the register says whether it is new. It keeps the ID for longer than a record is used. So none
 * is accepted twice, unless the clock of the system goes back by an hour. */

#define HOUR (3600 * HTTP3_SECOND)

static int is_new(void *data, time_t until, const gnutls_datum_t *key, const gnutls_datum_t *entry)
{
    /* The record's time is before the ID: with it, a handshake would be another one for the next record. */
    const size_t before = 12;
    http3_early *early = data;
    (void)until, (void)entry;
    return key->size > before &&
                   http3_register_add(&early->seen, key->data + before, key->size - before, early->now, 3 * HOUR)
               ? 0
               : GNUTLS_E_DB_ENTRY_EXISTS;
}

static gnutls_anti_replay_t new_record(http3_early *early)
{
    gnutls_anti_replay_t record;
    if (gnutls_anti_replay_init(&record) != 0)
        return NULL;
    gnutls_anti_replay_set_window(record, 4 * 3600 * 1000);
    gnutls_anti_replay_set_add_function(record, is_new);
    gnutls_anti_replay_set_ptr(record, early);
    return record;
}

void http3_early_close(http3_early *early)
{
    if (early->current != NULL)
        gnutls_anti_replay_deinit(early->current);
    if (early->next != NULL)
        gnutls_anti_replay_deinit(early->next);
    http3_register_free(early->seen);
    *early = (http3_early){0};
}

void http3_early_note(http3_early *early, uint64_t now)
{
    early->now = now;
    if (early->next == NULL || now - early->next_since >= HOUR) {
        if (early->current != NULL)
            gnutls_anti_replay_deinit(early->current);
        early->current = early->next;
        early->current_since = early->next_since;
        early->next = new_record(early);
        early->next_since = now;
    }
}

void http3_early_protect(http3_early *early, gnutls_session_t session, uint64_t now)
{
    http3_early_note(early, now);
    int is_current = early->current != NULL && now - early->current_since < 3 * HOUR;
    /* Without a record, GnuTLS accepts nothing early. */
    gnutls_anti_replay_enable(session, is_current ? early->current : early->next);
}

gnutls_session_t http3_new_session(const http3_credentials *credentials, const uint8_t *ticket_key, http3_offer offer,
                                   ngtcp2_crypto_conn_ref *reference)
{
    unsigned flags = GNUTLS_SERVER;
    if (offer == HTTP3_EARLY_DATA)
        flags |= GNUTLS_ENABLE_EARLY_DATA | GNUTLS_NO_END_OF_EARLY_DATA;
    static uint8_t h3[] = {'h', '3'};
    gnutls_datum_t protocol = {h3, sizeof h3};
    gnutls_datum_t tickets = {(uint8_t *)ticket_key, HTTP3_TICKET_KEY_LENGTH}; /* NOLINT: GnuTLS does not write */
    gnutls_session_t session;
    pthread_once(&once, make_priority);
    if (priority == NULL || gnutls_init(&session, flags) != 0)
        return NULL;
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_CLIENT_HELLO, GNUTLS_HOOK_POST, check_hello);
    gnutls_session_set_ptr(session, reference);
    if (offer == HTTP3_EARLY_DATA)
        gnutls_record_set_max_early_data_size(session, UINT32_MAX); /* RFC 9001, section 4.6.1 */
    if (gnutls_priority_set(session, priority) != 0 || gnutls_session_ticket_enable_server(session, &tickets) != 0 ||
        ngtcp2_crypto_gnutls_configure_server_session(session) != 0 ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials->certificates) != 0 ||
        gnutls_alpn_set_protocols(session, &protocol, 1, GNUTLS_ALPN_MANDATORY) != 0) {
        gnutls_deinit(session);
        return NULL;
    }
    return session;
}
