/* tls_failure.c - why a connection failed, in terms that do not depend on OpenSSL's. Must not know: system calls,
 * sockets. */
#include "tls_internal.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

/* NULL without memory. */
static tls_failure *failure_of(tls_connection *connection)
{
    if (!connection->failure && (connection->failure = calloc(1, sizeof *connection->failure))) {
        connection->failure->alert_sent = connection->failure->alert_received = -1;
        connection->failure->verify_result = X509_V_OK;
    }
    return connection->failure;
}

void tls_failure_free(tls_connection *connection)
{
    if (connection->failure)
        X509_free(connection->failure->certificate);
    free(connection->failure);
    connection->failure = NULL;
}

/* Keeps only the first failure, because it causes the later ones. */
void tls_failure_set(tls_connection *connection, tls_problem problem, const char *detail)
{
    if (connection->has_failed)
        return;
    connection->has_failed = true;
    tls_failure *failure = failure_of(connection);
    if (!failure)
        return;
    failure->problem = problem;
    failure->alert_sent = connection->alert_sent;
    failure->alert_received = connection->alert_received;
    size_t length = strnlen(detail, sizeof failure->detail - 1);
    memcpy(failure->detail, detail, length);
    failure->detail[length] = 0;
}

/* Whether an error with this reason says that an alert was received. Errors that OpenSSL's libraries share have larger
 * numbers. */
static bool is_of_alert(int reason)
{
    return reason >= SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + UINT8_MAX;
}

static tls_problem problem_of(const tls_connection *connection, unsigned long error)
{
    int reason = ERR_GET_REASON(error);
    if (ERR_GET_LIB(error) != ERR_LIB_SSL)
        return reason == ERR_R_MALLOC_FAILURE ? TLS_PROBLEM_NO_MEMORY : TLS_PROBLEM_VIOLATION;
    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return TLS_PROBLEM_CERTIFICATE;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return TLS_PROBLEM_NO_CERTIFICATE;
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return TLS_PROBLEM_PLAIN_HTTP;
    case SSL_R_WRONG_VERSION_NUMBER:
        return connection->has_handshake ? TLS_PROBLEM_VIOLATION : TLS_PROBLEM_NOT_TLS;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_INAPPROPRIATE_FALLBACK:
        return TLS_PROBLEM_NO_VERSION;
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SHARED_GROUPS:
    case SSL_R_NO_SUITABLE_GROUPS:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
        return TLS_PROBLEM_NO_CIPHER;
    case SSL_R_NO_APPLICATION_PROTOCOL:
        return TLS_PROBLEM_NO_PROTOCOL;
    case SSL_R_CALLBACK_FAILED:
        return connection->alert_sent == SSL_AD_UNRECOGNIZED_NAME ? TLS_PROBLEM_UNKNOWN_NAME : TLS_PROBLEM_INTERNAL;
    case ERR_R_INTERNAL_ERROR:
        return TLS_PROBLEM_INTERNAL;
    case ERR_R_MALLOC_FAILURE:
        return TLS_PROBLEM_NO_MEMORY;
    default:
        return is_of_alert(reason) ? TLS_PROBLEM_ALERT : TLS_PROBLEM_VIOLATION;
    }
}

void tls_failure_note(tls_connection *connection, int ssl_error)
{
    unsigned long first = ERR_peek_error();
    const char *detail = NULL;
    tls_problem problem = TLS_PROBLEM_VIOLATION;
    if (first != 0) {
        detail = ERR_reason_error_string(first);
        problem = problem_of(connection, first);
    }
    if (connection->is_without_memory)
        problem = TLS_PROBLEM_NO_MEMORY;
    else if (connection->failure && connection->failure->verify_result != X509_V_OK)
        /* The first error may be one of verifying, for example of a wrong signature. */
        problem = TLS_PROBLEM_CERTIFICATE;
    else if (first == 0 && connection->alert_received >= 0)
        problem = TLS_PROBLEM_ALERT;
    else if (first == 0 && ssl_error != SSL_ERROR_SSL)
        problem = TLS_PROBLEM_INTERNAL;
    tls_failure_set(connection, problem, detail ? detail : "");
}

/* Whether this alert ends the connection. In TLS 1.3 the level that the peer sends is ignored (RFC 8446, section 6). */
static bool is_fatal(const SSL *ssl, int level, int description)
{
    return level == SSL3_AL_FATAL || (SSL_version(ssl) == TLS1_3_VERSION && description != SSL_AD_USER_CANCELLED);
}

/* Notes fatal alerts, which OpenSSL does not keep. Warnings are ignored, because they do not cause later failures. */
void tls_on_info(const SSL *ssl, int where, int value)
{
    if (!(where & SSL_CB_ALERT))
        return;
    tls_connection *connection = SSL_get_app_data(ssl);
    int description = value & 0xff;
    if (description == SSL_AD_CLOSE_NOTIFY || !is_fatal(ssl, value >> 8, description))
        return;
    if (where & SSL_CB_READ)
        connection->alert_received = description;
    else
        connection->alert_sent = description;
}

int tls_on_verify(int is_good, X509_STORE_CTX *chain)
{
    if (is_good)
        return 1;
    SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
    tls_failure *failure = failure_of(SSL_get_app_data(ssl));
    if (!failure)
        return 0;
    X509 *certificate = X509_STORE_CTX_get_current_cert(chain);
    failure->verify_result = X509_STORE_CTX_get_error(chain);
    failure->depth = X509_STORE_CTX_get_error_depth(chain);
    X509_free(failure->certificate);
    failure->certificate = certificate && X509_up_ref(certificate) ? certificate : NULL;
    return 0;
}

const char *tls_verify_words(int verify_result)
{
    return X509_verify_cert_error_string(verify_result);
}

size_t tls_last_error(char *to, size_t capacity)
{
    unsigned long first = ERR_peek_error();
    const char *words = first == 0 ? NULL : ERR_reason_error_string(first);
    ERR_clear_error();
    size_t length = words ? strnlen(words, capacity) : 0;
    if (length > 0)
        memcpy(to, words, length);
    return length;
}
