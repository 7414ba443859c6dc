/* tls_staple.c - OCSP responses that a server sends with its certificates (stapling), and the log of secrets for
 * debugging. Must not know: sockets. */
#include "tls_internal.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct tls_staple {
    struct tls_staple *next;
    X509 *certificate;
    time_t ends; /* 0: never */
    size_t length;
    uint8_t answer[];
};

typedef enum { ANSWER_BROKEN, ANSWER_ABOUT_ANOTHER, ANSWER_GOOD } answer_kind;

/* The part of an OCSP response that is about the certificate; NULL if there is none. */
static OCSP_SINGLERESP *part_about(OCSP_BASICRESP *basic, const X509 *certificate)
{
    for (int i = 0; i < OCSP_resp_count(basic); i++) {
        OCSP_SINGLERESP *part = OCSP_resp_get0(basic, i);
        ASN1_INTEGER *serial = NULL;
        if (OCSP_id_get0_info(NULL, NULL, NULL, &serial, (OCSP_CERTID *)(uintptr_t)OCSP_SINGLERESP_get0_id(part)) ==
                1 &&
            ASN1_INTEGER_cmp(serial, X509_get0_serialNumber(certificate)) == 0)
            return part;
    }
    return NULL;
}

/* Checks an OCSP response for the certificate. If it is good, stores in *ends when it becomes too old; 0: never. */
static answer_kind read_answer(const uint8_t *answer, size_t length, const X509 *certificate, time_t *ends)
{
    const uint8_t *at = answer;
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &at, (long)length);
    OCSP_BASICRESP *basic = response && OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL
                                ? OCSP_response_get1_basic(response)
                                : NULL;
    answer_kind kind = basic ? ANSWER_ABOUT_ANOTHER : ANSWER_BROKEN;
    OCSP_SINGLERESP *part = basic ? part_about(basic, certificate) : NULL;
    if (part) {
        ASN1_GENERALIZEDTIME *until = NULL;
        struct tm parts;
        (void)OCSP_single_get0_status(part, NULL, NULL, NULL, &until);
        *ends = until && ASN1_TIME_to_tm(until, &parts) == 1 ? timegm(&parts) : 0;
        kind = ANSWER_GOOD;
    }
    OCSP_BASICRESP_free(basic);
    OCSP_RESPONSE_free(response);
    return kind;
}

/* Sends the OCSP response for the chosen certificate, if there is one that is not too old. */
static int on_status(SSL *ssl, void *argument)
{
    const tls_context *context = argument;
    const X509 *certificate = SSL_get_certificate(ssl);
    for (const struct tls_staple *one = context->staples; one; one = one->next) {
        if (one->certificate != certificate || (one->ends != 0 && one->ends <= time(NULL)))
            continue;
        uint8_t *copy = OPENSSL_memdup(one->answer, one->length);
        if (!copy)
            return SSL_TLSEXT_ERR_NOACK;
        (void)SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long)one->length);
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_NOACK;
}

bool tls_context_staple(tls_context *context, const tls_identity *identity, const uint8_t *answer, size_t length)
{
    ERR_clear_error();
    time_t ends = 0;
    answer_kind kind = read_answer(answer, length, identity->certificate, &ends);
    /* After the renewal of a certificate, the program may still have the response for the old one. */
    if (kind == ANSWER_ABOUT_ANOTHER)
        return true;
    struct tls_staple *one = kind == ANSWER_GOOD ? malloc(sizeof *one + length) : NULL;
    if (!one)
        return false;
    *one = (struct tls_staple){
        .next = context->staples, .certificate = identity->certificate, .ends = ends, .length = length};
    memcpy(one->answer, answer, length);
    (void)X509_up_ref(identity->certificate);
    context->staples = one;
    for (int i = 0; i < context->group_count; i++) {
        SSL_CTX_set_tlsext_status_cb(context->groups[i], on_status);
        SSL_CTX_set_tlsext_status_arg(context->groups[i], context);
    }
    return true;
}

void tls_staples_free(struct tls_staple *staples)
{
    while (staples) {
        struct tls_staple *next = staples->next;
        X509_free(staples->certificate);
        free(staples);
        staples = next;
    }
}

/* The log of secrets ********************************************************************************************** */

/* One log for the whole program, because OpenSSL's callback has no argument for us. */
static atomic_int key_log = -1;

static void on_secret(const SSL *ssl, const char *line)
{
    (void)ssl;
    struct iovec parts[2] = {{(void *)(uintptr_t)line, strlen(line)}, {(void *)(uintptr_t) "\n", 1}};
    (void)!writev(atomic_load(&key_log), parts, 2);
}

bool tls_context_log_keys(tls_context *context, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0)
        return false;
    int before = atomic_exchange(&key_log, file);
    if (before >= 0)
        (void)close(before);
    for (int i = 0; i < context->group_count; i++)
        SSL_CTX_set_keylog_callback(context->groups[i], on_secret);
    return true;
}
