/* openssl_faults.c - functions of OpenSSL and of the system as the C files of this package call them where calls fail
 * (fault.h): those that fail for more than want of memory, or keep what they allocate. */
#include "fault/fault.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>

/* FAILING(name, (parameters), (arguments)): its result is 1, or 0 when it fails. */
#define FAILING(name, parameters, arguments)                                \
    int fault_##name parameters;                                            \
    int fault_##name parameters                                             \
    {                                                                       \
        return fault_is_due(#name, "result 0") ? 0 : (int)(name arguments); \
    }

FAILING(RAND_bytes, (unsigned char *to, int count), (to, count))
FAILING(EVP_EncryptInit_ex2,
        (EVP_CIPHER_CTX * context, const EVP_CIPHER *cipher, const unsigned char *key, const unsigned char *iv,
         const OSSL_PARAM *parameters),
        (context, cipher, key, iv, parameters))
FAILING(EVP_DecryptInit_ex2,
        (EVP_CIPHER_CTX * context, const EVP_CIPHER *cipher, const unsigned char *key, const unsigned char *iv,
         const OSSL_PARAM *parameters),
        (context, cipher, key, iv, parameters))
FAILING(EVP_MAC_CTX_set_params, (EVP_MAC_CTX * context, const OSSL_PARAM *parameters), (context, parameters))
FAILING(EVP_DigestUpdate, (EVP_MD_CTX * context, const void *bytes, size_t count), (context, bytes, count))
FAILING(SSL_CTX_set_session_id_context, (SSL_CTX * context, const unsigned char *bytes, unsigned count),
        (context, bytes, count))
FAILING(SSL_set_session, (SSL * ssl, SSL_SESSION *session), (ssl, session))
FAILING(SSL_SESSION_up_ref, (SSL_SESSION * session), (session))
FAILING(X509_up_ref, (X509 * certificate), (certificate))
FAILING(X509_STORE_add_crl, (X509_STORE * store, X509_CRL *list), (store, list))
FAILING(X509_STORE_add_cert, (X509_STORE * store, X509 *certificate), (store, certificate))
FAILING(ASN1_TIME_diff, (int *days, int *seconds, const ASN1_TIME *from, const ASN1_TIME *to),
        (days, seconds, from, to))
FAILING(OPENSSL_sk_push, (OPENSSL_STACK * stack, const void *what), (stack, what))

/* It returns its error. */
int fault_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int fault_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes)
{
    return fault_is_due("pthread_mutex_init", "ENOMEM") ? ENOMEM : pthread_mutex_init(lock, attributes);
}
