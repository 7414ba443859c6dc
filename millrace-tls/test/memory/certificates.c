/* certificates.c - identities from keys and certificates in PEM, and the fields of certificates. Must not know:
 * sockets. */
#include "memory_test.h"
#include "tls_internal.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

/* Identities ****************************************************************************************************** */

typedef struct text {
    uint8_t *bytes;
    size_t length;
} text;

static text take(BIO *memory)
{
    char *bytes = NULL;
    long length = BIO_get_mem_data(memory, &bytes);
    CHECK_GT(length, 0);
    text taken = {.bytes = malloc((size_t)length), .length = (size_t)length};
    CHECK(taken.bytes);
    memcpy(taken.bytes, bytes, taken.length);
    BIO_free(memory);
    return taken;
}

static tls_identity_result result_of(text chain, text key, const char *password)
{
    tls_identity *made = (tls_identity *)1;
    tls_identity_result result = tls_identity_new(&made, chain.bytes, chain.length, key.bytes, key.length,
                                                  (const uint8_t *)password, password ? strlen(password) : 0);
    CHECK_EQ(result == TLS_IDENTITY_OK, made != NULL);
    if (made)
        tls_identity_free(made);
    return result;
}

static text text_of(const char *words)
{
    return (text){.bytes = (uint8_t *)(uintptr_t)words, .length = strlen(words)};
}

/* Why a key and certificates are refused. */
void identities(uintptr_t unused)
{
    (void)unused;
    const credentials *own = usual_credentials();
    const credentials *other = credentials_of("other", "DNS:other.test");
    text chain = {own->certificate, own->certificate_length};
    text key = {own->key, own->key_length};
    CHECK_EQ(result_of(chain, key, NULL), TLS_IDENTITY_OK);
    CHECK_EQ(result_of(chain, key, "not needed"), TLS_IDENTITY_OK);
    CHECK_EQ(result_of(chain, (text){other->key, other->key_length}, NULL), TLS_IDENTITY_MISMATCH);
    CHECK_EQ(result_of(text_of("no certificate"), key, NULL), TLS_IDENTITY_NO_CERTIFICATE);
    CHECK_EQ(result_of((text){own->certificate, own->certificate_length - 40}, key, NULL),
             TLS_IDENTITY_BAD_CERTIFICATE);
    CHECK_EQ(result_of(text_of("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), key, NULL),
             TLS_IDENTITY_BAD_CERTIFICATE);
    CHECK_EQ(result_of(chain, text_of("no key"), NULL), TLS_IDENTITY_NO_KEY);
    CHECK_EQ(result_of(chain, chain, NULL), TLS_IDENTITY_NO_KEY);
    CHECK_EQ(result_of(chain, text_of("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), NULL),
             TLS_IDENTITY_BAD_KEY);
    tls_identity *none = (tls_identity *)1;
    CHECK_EQ(tls_identity_new(&none, chain.bytes, (size_t)INT32_MAX + 1, key.bytes, key.length, NULL, 0),
             TLS_IDENTITY_NO_MEMORY);
    CHECK_EQ(tls_identity_new(&none, chain.bytes, chain.length, key.bytes, (size_t)INT32_MAX + 1, NULL, 0),
             TLS_IDENTITY_NO_MEMORY);
    CHECK(!none);
    /* An encrypted key. */
    EVP_PKEY *plain = key_of(own);
    BIO *memory = BIO_new(BIO_s_mem());
    CHECK(memory && PEM_write_bio_PKCS8PrivateKey(memory, plain, EVP_aes_128_cbc(), "secret", 6, NULL, NULL) == 1);
    text encrypted = take(memory);
    EVP_PKEY_free(plain);
    CHECK_EQ(result_of(chain, encrypted, "secret"), TLS_IDENTITY_OK);
    CHECK_EQ(result_of(chain, encrypted, NULL), TLS_IDENTITY_NEEDS_PASSWORD);
    CHECK_EQ(result_of(chain, encrypted, "wrong"), TLS_IDENTITY_BAD_KEY);
    static char too_long[3000];
    memset(too_long, 'p', sizeof too_long - 1);
    CHECK_EQ(result_of(chain, encrypted, too_long), TLS_IDENTITY_BAD_KEY);
    free(encrypted.bytes);
    /* A chain of several, of which the last one is broken. */
    text both = {malloc(own->certificate_length + other->certificate_length), 0};
    CHECK(both.bytes);
    memcpy(both.bytes, own->certificate, own->certificate_length);
    memcpy(both.bytes + own->certificate_length, other->certificate, other->certificate_length);
    both.length = own->certificate_length + other->certificate_length;
    tls_identity *identity = NULL;
    CHECK_EQ(tls_identity_new(&identity, both.bytes, both.length, key.bytes, key.length, NULL, 0), TLS_IDENTITY_OK);
    CHECK_EQ(sk_X509_num(identity->chain), 1);
    CHECK_EQ(tls_identity_kind(identity), EVP_PKEY_EC);
    tls_certificate *certificate = tls_identity_certificate(identity);
    tls_identity_free(identity);
    X509 *expected = certificate_of(own);
    CHECK(certificate && X509_cmp(certificate, expected) == 0);
    X509_free(expected);
    tls_certificate_free(certificate);
    both.length -= 40;
    CHECK_EQ(result_of(both, key, NULL), TLS_IDENTITY_BAD_CERTIFICATE);
    free(both.bytes);
}

/* Fields ********************************************************************************************************** */

static bool is_field(const tls_certificate *certificate, tls_certificate_field field, const char *expected,
                     size_t length)
{
    uint8_t bytes[200];
    size_t whole = tls_certificate_read(certificate, field, bytes, sizeof bytes);
    /* Less memory gets the first bytes, and the same length. */
    for (size_t capacity = 0; capacity < whole; capacity += 3) {
        uint8_t *part = malloc(capacity + 1);
        CHECK(part);
        part[capacity] = 0xaa;
        CHECK_EQ(tls_certificate_read(certificate, field, part, capacity), whole);
        CHECK_MEMORY(part, bytes, capacity);
        CHECK_EQ(part[capacity], 0xaa);
        free(part);
    }
    return whole == length && memcmp(bytes, expected, length) == 0;
}

#define IS_FIELD(certificate, field, expected) is_field(certificate, field, expected, sizeof expected - 1)

static void add_name(GENERAL_NAMES *names, int kind, const void *bytes, int length)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = kind == GEN_IPADD ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
    CHECK(name && value && ASN1_STRING_set(value, bytes, length) == 1);
    GENERAL_NAME_set0_value(name, kind, value);
    CHECK_GT(sk_GENERAL_NAME_push(names, name), 0);
}

static void set_serial(X509 *certificate, const char *decimal)
{
    BIGNUM *number = NULL;
    CHECK(BN_dec2bn(&number, decimal) > 0 && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)));
    BN_free(number);
}

void certificate_fields(uintptr_t unused)
{
    (void)unused;
    X509 *certificate = certificate_of(usual_credentials());
    uint8_t der[2000];
    size_t length = tls_certificate_read(certificate, TLS_FIELD_DER, der, sizeof der);
    CHECK(length > 100 && length < sizeof der);
    tls_certificate *parsed = tls_certificate_parse(der, length);
    CHECK(parsed && X509_cmp(parsed, certificate) == 0);
    tls_certificate_free(parsed);
    for (size_t part = 0; part < length; part += 7)
        CHECK(!tls_certificate_parse(der, part));
    CHECK(IS_FIELD(certificate, TLS_FIELD_SUBJECT, "CN=usual"));
    CHECK(IS_FIELD(certificate, TLS_FIELD_ISSUER, "CN=usual"));
    CHECK(IS_FIELD(certificate, TLS_FIELD_DNS_NAMES, "localhost\0"));
    CHECK(IS_FIELD(certificate, TLS_FIELD_ADDRESSES, "127.0.0.1\0"));
    /* Serial numbers: zero, small, of twenty bytes, negative. */
    set_serial(certificate, "0");
    CHECK(IS_FIELD(certificate, TLS_FIELD_SERIAL, "00"));
    set_serial(certificate, "258");
    CHECK(IS_FIELD(certificate, TLS_FIELD_SERIAL, "0102"));
    set_serial(certificate, "1461501637330902918203684832716283019655932542975");
    CHECK(IS_FIELD(certificate, TLS_FIELD_SERIAL, "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"));
    set_serial(certificate, "-1");
    CHECK(IS_FIELD(certificate, TLS_FIELD_SERIAL, "-01"));
    X509_free(certificate);
    /* No alternative names. */
    certificate = certificate_of(credentials_of("bare", NULL));
    CHECK_EQ(tls_certificate_read(certificate, TLS_FIELD_DNS_NAMES, NULL, 0), 0);
    CHECK_EQ(tls_certificate_read(certificate, TLS_FIELD_ADDRESSES, NULL, 0), 0);
    X509_free(certificate);
}

/* A name with a NUL in it is left out, and so is an address of another length than the two that exist. */
void alternative_names(uintptr_t unused)
{
    (void)unused;
    X509 *certificate = certificate_of(credentials_of("bare", NULL));
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    CHECK(names);
    add_name(names, GEN_DNS, "a.test", 6);
    add_name(names, GEN_DNS, "bank.test\0.evil.test", 20);
    add_name(names, GEN_DNS, "\0", 1);
    add_name(names, GEN_EMAIL, "x@a.test", 8);
    add_name(names, GEN_DNS, "*.b.test", 8);
    add_name(names, GEN_IPADD, "\x7f\0\0\1", 4);
    add_name(names, GEN_IPADD, "\x7f\0\0\1\0", 5);
    add_name(names, GEN_IPADD, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    add_name(names, GEN_IPADD, "", 0);
    CHECK_EQ(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0), 1);
    CHECK(IS_FIELD(certificate, TLS_FIELD_DNS_NAMES, "a.test\0*.b.test\0"));
    CHECK(IS_FIELD(certificate, TLS_FIELD_ADDRESSES, "127.0.0.1\0::1\0"));
    GENERAL_NAMES_free(names);
    X509_free(certificate);
}

void certificate_times(uintptr_t unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t seconds;
    } times[] = {{"19700101000000Z", 0},
                 {"19691231235959Z", -1},
                 {"20380119031408Z", 2147483648},
                 {"99991231235959Z", 253402300799}};
    X509 *certificate = certificate_of(usual_credentials());
    int64_t seconds = -7;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        CHECK_EQ(ASN1_TIME_set_string(X509_getm_notBefore(certificate), times[i].text), 1);
        CHECK(tls_certificate_begins(certificate, &seconds));
        CHECK_EQ(seconds, times[i].seconds);
        CHECK_EQ(ASN1_TIME_set_string(X509_getm_notAfter(certificate), times[i].text), 1);
        CHECK(tls_certificate_ends(certificate, &seconds));
        CHECK_EQ(seconds, times[i].seconds);
    }
    CHECK_EQ(ASN1_STRING_set(X509_getm_notAfter(certificate), "never", 5), 1);
    CHECK(!tls_certificate_ends(certificate, &seconds));
    X509_free(certificate);
}
