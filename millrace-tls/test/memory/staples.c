/* staples.c - OCSP responses that a server sends with its certificates. Must not know: system calls, sockets. */
#include "clock.h"
#include "memory_test.h"
#include "tls_internal.h"

#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

enum { HOUR = 3600 };

typedef struct answer {
    uint8_t *bytes;
    size_t length;
} answer;

static answer encode(OCSP_RESPONSE *response)
{
    answer made = {0};
    int length = i2d_OCSP_RESPONSE(response, &made.bytes);
    CHECK_GT(length, 0);
    made.length = (size_t)length;
    OCSP_RESPONSE_free(response);
    return made;
}

/* An OCSP response: the certificate with this serial number is good for `seconds`; 0: for ever. */
static answer answer_for(const credentials *own, long number, long seconds)
{
    X509 *certificate = certificate_of(own);
    EVP_PKEY *key = key_of(own);
    ASN1_INTEGER *serial = ASN1_INTEGER_new();
    CHECK(serial && ASN1_INTEGER_set(serial, number) == 1);
    OCSP_CERTID *id =
        OCSP_cert_id_new(EVP_sha1(), X509_get_issuer_name(certificate), X509_get0_pubkey_bitstr(certificate), serial);
    OCSP_BASICRESP *basic = OCSP_BASICRESP_new();
    ASN1_GENERALIZEDTIME *from = ASN1_GENERALIZEDTIME_adj(NULL, time(NULL), 0, 0);
    ASN1_GENERALIZEDTIME *until = seconds == 0 ? NULL : ASN1_GENERALIZEDTIME_adj(NULL, time(NULL), 0, seconds);
    CHECK(id && basic && from && OCSP_basic_add1_status(basic, id, V_OCSP_CERTSTATUS_GOOD, 0, NULL, from, until));
    CHECK_EQ(OCSP_basic_sign(basic, certificate, key, EVP_sha256(), NULL, 0), 1);
    answer made = encode(OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic));
    ASN1_GENERALIZEDTIME_free(until);
    ASN1_GENERALIZEDTIME_free(from);
    OCSP_BASICRESP_free(basic);
    OCSP_CERTID_free(id);
    ASN1_INTEGER_free(serial);
    EVP_PKEY_free(key);
    X509_free(certificate);
    return made;
}

/* Whether a client that asks for an OCSP response gets exactly this one; NULL: gets none. */
static bool shows(tls_context *client, tls_context *server, const answer *expected)
{
    conversation c;
    conversation_begin(&c, client, server, 10, 1);
    SSL *ssl = c.client.connection->ssl;
    CHECK_EQ(SSL_set_tlsext_status_type(ssl, TLSEXT_STATUSTYPE_ocsp), 1);
    conversation_shake_hands(&c);
    CHECK_EQ(c.client.phase, OPEN);
    const unsigned char *shown = NULL;
    long length = SSL_get_tlsext_status_ocsp_resp(ssl, &shown);
    bool is_expected = expected
                           ? length == (long)expected->length && memcmp(shown, expected->bytes, expected->length) == 0
                           : !shown || length <= 0;
    conversation_end(&c);
    return is_expected;
}

/* All certificates of these tests have the serial number 1. */
void staples(uintptr_t version)
{
    /* Not a certificate that signs itself: OpenSSL 3.6 sends no response about one. */
    const credentials *authority = credentials_of("authority", NULL);
    const credentials *own = credentials_from(authority, "one", "DNS:localhost");
    tls_context *client = new_client_context(authority, (int)version);
    tls_context *server = new_server_context(own, (int)version);
    answer fresh = answer_for(own, 1, 2L * HOUR);
    answer endless = answer_for(own, 1, 0);
    answer other = answer_for(own, 2, 2L * HOUR);
    answer busy = encode(OCSP_response_create(OCSP_RESPONSE_STATUS_TRYLATER, NULL));
    CHECK(shows(client, server, NULL));
    /* A truncated response is refused, at every length. So is one that is not successful. */
    for (size_t length = 0; length < fresh.length; length++)
        CHECK(!tls_context_staple(server, own->identity, fresh.bytes, length));
    CHECK(!tls_context_staple(server, own->identity, busy.bytes, busy.length));
    CHECK(shows(client, server, NULL));
    /* A response about another certificate is accepted, but not sent. */
    CHECK(tls_context_staple(server, own->identity, other.bytes, other.length));
    CHECK(shows(client, server, NULL));
    CHECK(tls_context_staple(server, own->identity, fresh.bytes, fresh.length));
    CHECK(shows(client, server, &fresh));
    advance_clock(HOUR);
    CHECK(shows(client, server, &fresh));
    advance_clock(HOUR + 1);
    CHECK(shows(client, server, NULL));
    /* A later response replaces the earlier one. */
    CHECK(tls_context_staple(server, own->identity, endless.bytes, endless.length));
    CHECK(shows(client, server, &endless));
    OPENSSL_free(fresh.bytes);
    OPENSSL_free(endless.bytes);
    OPENSSL_free(other.bytes);
    OPENSSL_free(busy.bytes);
    tls_context_release(client);
    tls_context_release(server);
}
