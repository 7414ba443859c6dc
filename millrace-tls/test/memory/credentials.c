/* credentials.c - keys and certificates, made when they are first needed. Must not know: system calls, sockets. */
#include "conversation.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *take_pem(BIO *memory, size_t *length)
{
    char *bytes = NULL;
    *length = (size_t)BIO_get_mem_data(memory, &bytes);
    uint8_t *copy = malloc(*length);
    CHECK(copy);
    memcpy(copy, bytes, *length);
    BIO_free(memory);
    return copy;
}

static void add_extension(X509 *certificate, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    CHECK(extension && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static const credentials *all;

X509 *certificate_of(const credentials *own)
{
    BIO *memory = BIO_new_mem_buf(own->certificate, (int)own->certificate_length);
    X509 *certificate = PEM_read_bio_X509(memory, NULL, NULL, NULL);
    BIO_free(memory);
    CHECK(certificate);
    return certificate;
}

EVP_PKEY *key_of(const credentials *own)
{
    BIO *memory = BIO_new_mem_buf(own->key, (int)own->key_length);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(memory, NULL, NULL, NULL);
    BIO_free(memory);
    CHECK(key);
    return key;
}

static void sign_by(const credentials *authority, X509 *certificate)
{
    X509 *issuer = certificate_of(authority);
    EVP_PKEY *key = key_of(authority);
    CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1);
    CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
    EVP_PKEY_free(key);
    X509_free(issuer);
}

const credentials *credentials_from(const credentials *authority, const char *common_name, const char *names)
{
    credentials *made = calloc(1, sizeof *made);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    CHECK(made && key && certificate);
    CHECK(X509_set_version(certificate, 2) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1);
    CHECK(X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) &&
          X509_gmtime_adj(X509_getm_notAfter(certificate), 86400));
    X509_NAME *name = X509_NAME_new();
    CHECK(name &&
          X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common_name, -1, -1, 0) == 1);
    CHECK(X509_set_subject_name(certificate, name) == 1 && X509_set_issuer_name(certificate, name) == 1 &&
          X509_set_pubkey(certificate, key) == 1);
    X509_NAME_free(name);
    if (names)
        add_extension(certificate, NID_subject_alt_name, names);
    if (authority)
        sign_by(authority, certificate);
    else {
        add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
        CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
    }
    BIO *memory = BIO_new(BIO_s_mem());
    CHECK(PEM_write_bio_X509(memory, certificate) == 1);
    made->certificate = take_pem(memory, &made->certificate_length);
    memory = BIO_new(BIO_s_mem());
    CHECK(PEM_write_bio_PrivateKey(memory, key, NULL, NULL, 0, NULL, NULL) == 1);
    made->key = take_pem(memory, &made->key_length);
    X509_free(certificate);
    EVP_PKEY_free(key);
    CHECK(tls_identity_new(&made->identity, made->certificate, made->certificate_length, made->key, made->key_length,
                           NULL, 0) == TLS_IDENTITY_OK);
    made->next = all;
    all = made;
    return made;
}

const credentials *credentials_of(const char *common_name, const char *names)
{
    return credentials_from(NULL, common_name, names);
}

const credentials *usual_credentials(void)
{
    static const credentials *usual;
    if (!usual)
        usual = credentials_of("usual", "DNS:localhost,IP:127.0.0.1");
    return usual;
}

tls_context *new_server_context(const credentials *own, int version)
{
    tls_context *context = tls_context_new(TLS_SERVER);
    CHECK(context && tls_context_versions(context, version, version));
    CHECK(tls_context_use(context, 0, own->identity));
    return context;
}

tls_context *new_client_context(const credentials *trusted, int version)
{
    tls_context *context = tls_context_new(TLS_CLIENT);
    CHECK(context && tls_context_versions(context, version, version));
    tls_context_verify(context, TLS_PEER_REQUIRED);
    CHECK(tls_context_trust(context, trusted->certificate, trusted->certificate_length) == 1);
    return context;
}
