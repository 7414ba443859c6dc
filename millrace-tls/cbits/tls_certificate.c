/* tls_certificate.c - identities, and the fields of certificates. Must not know: system calls, sockets. */
#include "tls_internal.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

/* Identities ****************************************************************************************************** */

typedef struct password {
    const uint8_t *bytes;
    size_t length;
    bool is_asked_for;
} password;

static int give_password(char *to, int capacity, int is_writing, void *argument)
{
    (void)is_writing;
    password *given = argument;
    given->is_asked_for = true;
    if (!given->bytes || given->length > (size_t)capacity)
        return -1;
    memcpy(to, given->bytes, given->length);
    return (int)given->length;
}

static tls_identity_result read_chain(tls_identity *identity, const uint8_t *pem, size_t length)
{
    BIO *from = BIO_new_mem_buf(pem, (int)length);
    identity->chain = sk_X509_new_null();
    if (!from || !identity->chain) {
        BIO_free(from);
        return TLS_IDENTITY_NO_MEMORY;
    }
    ERR_clear_error();
    identity->certificate = PEM_read_bio_X509_AUX(from, NULL, tls_no_password, NULL);
    for (X509 *next = NULL; identity->certificate && (next = PEM_read_bio_X509(from, NULL, tls_no_password, NULL));)
        if (sk_X509_push(identity->chain, next) <= 0)
            X509_free(next);
    BIO_free(from);
    unsigned long last = ERR_peek_last_error();
    bool is_end = ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
    if (!is_end)
        return TLS_IDENTITY_BAD_CERTIFICATE;
    return identity->certificate ? TLS_IDENTITY_OK : TLS_IDENTITY_NO_CERTIFICATE;
}

static tls_identity_result read_key(tls_identity *identity, const uint8_t *pem, size_t length, password *given)
{
    BIO *from = BIO_new_mem_buf(pem, (int)length);
    if (!from)
        return TLS_IDENTITY_NO_MEMORY;
    ERR_clear_error();
    identity->key = PEM_read_bio_PrivateKey(from, NULL, give_password, given);
    BIO_free(from);
    if (identity->key)
        return TLS_IDENTITY_OK;
    if (given->is_asked_for && !given->bytes)
        return TLS_IDENTITY_NEEDS_PASSWORD;
    if (!given->is_asked_for && !memmem(pem, length, "PRIVATE KEY", strlen("PRIVATE KEY")))
        return TLS_IDENTITY_NO_KEY;
    return TLS_IDENTITY_BAD_KEY;
}

tls_identity_result tls_identity_new(tls_identity **made, const uint8_t *chain, size_t chain_length, const uint8_t *key,
                                     size_t key_length, const uint8_t *password_bytes, size_t password_length)
{
    *made = NULL;
    tls_identity *identity = calloc(1, sizeof *identity);
    if (!identity || chain_length > INT_MAX || key_length > INT_MAX) {
        free(identity);
        return TLS_IDENTITY_NO_MEMORY;
    }
    password given = {.bytes = password_bytes, .length = password_length};
    tls_identity_result result = read_chain(identity, chain, chain_length);
    if (result == TLS_IDENTITY_OK)
        result = read_key(identity, key, key_length, &given);
    if (result == TLS_IDENTITY_OK && X509_check_private_key(identity->certificate, identity->key) != 1)
        result = TLS_IDENTITY_MISMATCH;
    if (result == TLS_IDENTITY_OK)
        *made = identity;
    else
        tls_identity_free(identity);
    return result;
}

void tls_identity_free(tls_identity *identity)
{
    X509_free(identity->certificate);
    sk_X509_pop_free(identity->chain, X509_free);
    EVP_PKEY_free(identity->key);
    free(identity);
}

tls_certificate *tls_identity_certificate(const tls_identity *identity)
{
    return X509_up_ref(identity->certificate) ? identity->certificate : NULL;
}

int tls_identity_kind(const tls_identity *identity)
{
    return EVP_PKEY_get_base_id(identity->key);
}

/* Certificates **************************************************************************************************** */

tls_certificate *tls_certificate_parse(const uint8_t *der, size_t length)
{
    X509 *parsed = d2i_X509(NULL, &der, (long)length);
    ERR_clear_error();
    return parsed;
}

void tls_certificate_free(tls_certificate *certificate)
{
    X509_free(certificate);
}

typedef struct target {
    uint8_t *to;
    size_t capacity;
    size_t length;
} target;

static void put(target *target, const void *bytes, size_t count)
{
    if (target->length < target->capacity) {
        size_t left = target->capacity - target->length;
        memcpy(target->to + target->length, bytes, count < left ? count : left);
    }
    target->length += count;
}

static void put_memory(target *target, BIO *memory)
{
    char *bytes = NULL;
    long count = BIO_get_mem_data(memory, &bytes);
    if (count > 0)
        put(target, bytes, (size_t)count);
}

static void put_name(target *target, const X509_NAME *name)
{
    BIO *memory = BIO_new(BIO_s_mem());
    if (memory && X509_NAME_print_ex(memory, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) >= 0)
        put_memory(target, memory);
    BIO_free(memory);
}

static void put_serial(target *target, const X509 *certificate)
{
    BIO *memory = BIO_new(BIO_s_mem());
    if (memory && i2a_ASN1_INTEGER(memory, X509_get0_serialNumber(certificate)) >= 0)
        put_memory(target, memory);
    BIO_free(memory);
}

/* Leaves out a name with a NUL in it: a program that stops at the NUL would take it for another name. */
static void put_dns_name(target *target, const ASN1_STRING *name)
{
    const uint8_t *bytes = ASN1_STRING_get0_data(name);
    size_t length = (size_t)ASN1_STRING_length(name);
    if (memchr(bytes, 0, length))
        return;
    put(target, bytes, length);
    put(target, "", 1);
}

static void put_address(target *target, const ASN1_STRING *address)
{
    char text[INET6_ADDRSTRLEN];
    int length = ASN1_STRING_length(address);
    int family = length == 4 ? AF_INET : AF_INET6;
    if ((length == 4 || length == 16) && inet_ntop(family, ASN1_STRING_get0_data(address), text, sizeof text))
        put(target, text, strlen(text) + 1);
}

static void put_alternatives(target *target, const X509 *certificate, int wanted)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int kind = 0;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &kind);
        if (kind != wanted)
            continue;
        if (kind == GEN_DNS)
            put_dns_name(target, value);
        else
            put_address(target, value);
    }
    GENERAL_NAMES_free(names);
}

static void put_der(target *target, const X509 *certificate)
{
    uint8_t *der = NULL;
    int length = i2d_X509(certificate, &der);
    if (length > 0)
        put(target, der, (size_t)length);
    OPENSSL_free(der);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the field is written through it */
size_t tls_certificate_read(const tls_certificate *certificate, tls_certificate_field field, uint8_t *to,
                            size_t capacity)
{
    target target = {.to = to, .capacity = capacity};
    ERR_clear_error();
    switch (field) {
    case TLS_FIELD_DER:
        put_der(&target, certificate);
        break;
    case TLS_FIELD_SUBJECT:
        put_name(&target, X509_get_subject_name(certificate));
        break;
    case TLS_FIELD_ISSUER:
        put_name(&target, X509_get_issuer_name(certificate));
        break;
    case TLS_FIELD_SERIAL:
        put_serial(&target, certificate);
        break;
    case TLS_FIELD_DNS_NAMES:
        put_alternatives(&target, certificate, GEN_DNS);
        break;
    case TLS_FIELD_ADDRESSES:
        put_alternatives(&target, certificate, GEN_IPADD);
        break;
    }
    ERR_clear_error();
    return target.length;
}

static bool seconds_of(const ASN1_TIME *time, int64_t *seconds)
{
    int days = 0;
    int rest = 0;
    ASN1_TIME *beginning = ASN1_TIME_set(NULL, 0);
    bool is_known = beginning && ASN1_TIME_diff(&days, &rest, beginning, time) == 1;
    ASN1_TIME_free(beginning);
    *seconds = (int64_t)days * 86400 + rest;
    return is_known;
}

bool tls_certificate_begins(const tls_certificate *certificate, int64_t *seconds)
{
    return seconds_of(X509_get0_notBefore(certificate), seconds);
}

bool tls_certificate_ends(const tls_certificate *certificate, int64_t *seconds)
{
    return seconds_of(X509_get0_notAfter(certificate), seconds);
}
