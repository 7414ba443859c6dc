/* tls_context.c - the settings, identities and names that many connections share. Must not know: system calls, sockets.
 * */
#include "tls_internal.h"

#include "millrace_check.h"

#include <ctype.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

static const char default_ciphers_1_3[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

/* All have forward secrecy and authenticated encryption. The cheapest come first. */
static const char default_ciphers_1_2[] = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
                                          "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
                                          "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";

/* OpenSSL's level 2 requires RSA keys of 2048 bits and SHA-2. The machine's configuration may set a higher level. */
enum { LEAST_SECURITY_LEVEL = 2 };

static SSL_CTX *new_group(tls_role role)
{
    SSL_CTX *group = SSL_CTX_new(role == TLS_SERVER ? TLS_server_method() : TLS_client_method());
    if (!group)
        return NULL;
    SSL_CTX_set_mode(group,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(group, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_session_cache_mode(group, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_get_security_level(group) < LEAST_SECURITY_LEVEL)
        SSL_CTX_set_security_level(group, LEAST_SECURITY_LEVEL);
    SSL_CTX_set_num_tickets(group, 1);
    SSL_CTX_set_info_callback(group, tls_on_info);
    return group;
}

/* Adds a setting to the session scope: a session can only be resumed in a context with the same settings. They include
 * which client certificates a context requires. Contexts may share ticket keys, so without this a client could begin a
 * session where no certificate is required, and resume it where one is. */
static bool narrow_sessions(tls_context *context, const void *bytes, size_t length)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    bool is_done = digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1 &&
                   EVP_DigestUpdate(digest, context->session_scope, sizeof context->session_scope) == 1 &&
                   EVP_DigestUpdate(digest, bytes, length) == 1 &&
                   EVP_DigestFinal_ex(digest, context->session_scope, NULL) == 1;
    EVP_MD_CTX_free(digest);
    for (int i = 0; i < context->group_count; i++)
        is_done = is_done && SSL_CTX_set_session_id_context(context->groups[i], context->session_scope,
                                                            sizeof context->session_scope) == 1;
    return is_done;
}

/* OpenSSL knows the first group since 3.5. A server that has it waits for another flight rather than take a later one
 * ("/"), and a client sends keys for both ("*"), so that a server without it need not ask again. */
static bool use_default_groups(tls_context *context)
{
    return tls_context_groups(context, "*X25519MLKEM768/*X25519:P-256:P-384") ||
           tls_context_groups(context, "X25519:P-256:P-384");
}

tls_context *tls_context_new(tls_role role)
{
    ERR_clear_error();
    tls_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->role = role;
    atomic_init(&context->references, 1);
    if (tls_context_add_group(context) != 0 || !narrow_sessions(context, "millrace", 8) ||
        !tls_context_versions(context, TLS1_2_VERSION, TLS1_3_VERSION) ||
        !tls_context_ciphers(context, default_ciphers_1_3, default_ciphers_1_2) || !use_default_groups(context)) {
        tls_context_release(context);
        return NULL;
    }
    if (role == TLS_SERVER) {
        SSL_CTX_set_tlsext_servername_callback(context->groups[0], tls_on_server_name);
        SSL_CTX_set_tlsext_servername_arg(context->groups[0], context);
    }
    return context;
}

void tls_context_hold(tls_context *context)
{
    atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
}

void tls_context_release(tls_context *context)
{
    size_t before = atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel);
    MR_CHECK(before > 0);
    if (before != 1)
        return;
    for (int i = 0; i < context->group_count; i++)
        SSL_CTX_free(context->groups[i]);
    for (size_t i = 0; i < context->name_count; i++)
        free(context->names[i].name);
    tls_tickets_release(context->tickets);
    tls_staples_free(context->staples);
    tls_sessions_free(context->sessions);
    free(context->groups);
    free(context->names);
    free(context->protocols);
    free(context);
}

bool tls_context_versions(tls_context *context, int lowest, int highest)
{
    return SSL_CTX_set_min_proto_version(context->groups[0], lowest) == 1 &&
           SSL_CTX_set_max_proto_version(context->groups[0], highest) == 1;
}

bool tls_context_ciphers(tls_context *context, const char *for_1_3, const char *for_1_2)
{
    ERR_clear_error();
    return (!for_1_3 || SSL_CTX_set_ciphersuites(context->groups[0], for_1_3) == 1) &&
           (!for_1_2 || SSL_CTX_set_cipher_list(context->groups[0], for_1_2) == 1);
}

bool tls_context_groups(tls_context *context, const char *names)
{
    ERR_clear_error();
    return SSL_CTX_set1_groups_list(context->groups[0], names) == 1;
}

bool tls_context_protocols(tls_context *context, const uint8_t *list, size_t length)
{
    ERR_clear_error();
    if (context->role == TLS_CLIENT)
        return SSL_CTX_set_alpn_protos(context->groups[0], list, (unsigned)length) == 0;
    context->protocols = malloc(length);
    if (!context->protocols)
        return false;
    memcpy(context->protocols, list, length);
    context->protocols_length = length;
    SSL_CTX_set_alpn_select_cb(context->groups[0], tls_on_protocols, context);
    return true;
}

int tls_on_protocols(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
                     unsigned offered_length, void *argument)
{
    (void)ssl;
    const tls_context *context = argument;
    unsigned char *found = NULL;
    if (SSL_select_next_proto(&found, length, context->protocols, (unsigned)context->protocols_length, offered,
                              offered_length) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

/* Trust *********************************************************************************************************** */

static int accept_certificate(int is_good, X509_STORE_CTX *chain)
{
    (void)is_good;
    (void)chain;
    return 1;
}

bool tls_context_verify(tls_context *context, tls_peer_certificate peer)
{
    ERR_clear_error();
    int mode = SSL_VERIFY_NONE;
    if (peer == TLS_PEER_ASKED || peer == TLS_PEER_UNVERIFIED)
        mode = SSL_VERIFY_PEER;
    else if (peer == TLS_PEER_REQUIRED)
        mode = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    bool is_verified = peer != TLS_PEER_UNVERIFIED;
    SSL_CTX_set_verify(context->groups[0], mode, is_verified ? tls_on_verify : accept_certificate);
    return narrow_sessions(context, &mode, sizeof mode) && (is_verified || narrow_sessions(context, "unverified", 10));
}

bool tls_context_trust_system(tls_context *context)
{
    ERR_clear_error();
    return tls_system_trust(SSL_CTX_get_cert_store(context->groups[0])) && narrow_sessions(context, "system", 6);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type of a callback */
int tls_no_password(char *to, int capacity, int is_writing, void *unused)
{
    (void)to;
    (void)capacity;
    (void)is_writing;
    (void)unused;
    return -1;
}

/* Whether the reading of PEM has ended at the end of the input, and not at an error. */
static bool is_end_of_pem(void)
{
    unsigned long last = ERR_peek_last_error();
    bool is_end = ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
    if (is_end)
        ERR_clear_error();
    return is_end;
}

int tls_context_trust(tls_context *context, const uint8_t *pem, size_t length)
{
    ERR_clear_error();
    X509_STORE *store = SSL_CTX_get_cert_store(context->groups[0]);
    BIO *from = length <= INT_MAX ? BIO_new_mem_buf(pem, (int)length) : NULL;
    int count = 0;
    for (X509 *one = NULL; from && count >= 0 && (one = PEM_read_bio_X509(from, NULL, tls_no_password, NULL));
         X509_free(one)) {
        bool is_added = X509_STORE_add_cert(store, one) == 1;
        /* A server sends its clients the list of authorities whose certificates it accepts. */
        if (is_added && context->role == TLS_SERVER)
            is_added = SSL_CTX_add_client_CA(context->groups[0], one) == 1;
        count = is_added ? count + 1 : -1;
    }
    BIO_free(from);
    return count >= 0 && is_end_of_pem() && narrow_sessions(context, pem, length) ? count : -1;
}

int tls_context_revoke(tls_context *context, const uint8_t *pem, size_t length)
{
    ERR_clear_error();
    X509_STORE *store = SSL_CTX_get_cert_store(context->groups[0]);
    BIO *from = length <= INT_MAX ? BIO_new_mem_buf(pem, (int)length) : NULL;
    int count = 0;
    for (X509_CRL *one = NULL; from && count >= 0 && (one = PEM_read_bio_X509_CRL(from, NULL, tls_no_password, NULL));
         X509_CRL_free(one))
        count = X509_STORE_add_crl(store, one) == 1 ? count + 1 : -1;
    BIO_free(from);
    if (count < 0 || !is_end_of_pem() || !narrow_sessions(context, pem, length))
        return -1;
    if (count > 0)
        (void)X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    return count;
}

/* Identities ****************************************************************************************************** */

int tls_context_add_group(tls_context *context)
{
    SSL_CTX *group = new_group(context->role);
    SSL_CTX **groups = group ? realloc(context->groups, (size_t)(context->group_count + 1) * sizeof(SSL_CTX *)) : NULL;
    if (groups)
        context->groups = groups;
    if (!groups || SSL_CTX_set_session_id_context(group, context->session_scope, sizeof context->session_scope) != 1) {
        SSL_CTX_free(group);
        return -1;
    }
    groups[context->group_count] = group;
    return context->group_count++;
}

bool tls_context_use(tls_context *context, int group, const tls_identity *identity)
{
    ERR_clear_error();
    return SSL_CTX_use_cert_and_key(context->groups[group], identity->certificate, identity->key, identity->chain, 1) ==
           1;
}

void tls_context_refuse_unknown_names(tls_context *context)
{
    context->refuses_unknown_names = true;
}

static int compare_names(const void *one, const void *other)
{
    return strcmp(((const tls_name *)one)->name, ((const tls_name *)other)->name);
}

bool tls_context_add_name(tls_context *context, const char *name, int group)
{
    tls_name *names = realloc(context->names, (context->name_count + 1) * sizeof *names);
    if (!names)
        return false;
    context->names = names;
    char *copy = strdup(name);
    if (!copy)
        return false;
    for (char *c = copy; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    names[context->name_count++] = (tls_name){.name = copy, .group = group};
    qsort(names, context->name_count, sizeof *names, compare_names);
    return true;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): it becomes part of a tls_name */
static const tls_name *find_name(const tls_context *context, char *name)
{
    tls_name wanted = {.name = name};
    return context->name_count == 0
               ? NULL
               : bsearch(&wanted, context->names, context->name_count, sizeof wanted, compare_names);
}

/* The entry for a name, or else for the name with "*" instead of its first label. */
static const tls_name *find_group(const tls_context *context, const char *asked)
{
    char name[256];
    size_t length = strnlen(asked, sizeof name);
    if (length == sizeof name)
        return NULL;
    for (size_t i = 0; i <= length; i++)
        name[i] = (char)tolower((unsigned char)asked[i]);
    if (length > 0 && name[length - 1] == '.')
        name[length - 1] = 0;
    const tls_name *found = find_name(context, name);
    char *dot = strchr(name, '.');
    if (found || !dot || dot == name)
        return found;
    dot[-1] = '*';
    return find_name(context, dot - 1);
}

/* The server name in the ClientHello: a list (2 bytes of length) with one entry (1 byte of type, 2 bytes of length).
 * NULL if there is no usable name. OpenSSL refuses a malformed list itself. */
static char *name_in_hello(SSL *ssl)
{
    const unsigned char *list = NULL;
    size_t length = 0;
    enum { PREFIX = 5, NAME_MAX_LENGTH = 255 };
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &list, &length) != 1 || length <= PREFIX)
        return NULL;
    size_t size = (size_t)list[3] << 8 | list[4];
    bool is_name = list[2] == TLSEXT_NAMETYPE_host_name && size == length - PREFIX && size <= NAME_MAX_LENGTH &&
                   !memchr(list + PREFIX, 0, size);
    return is_name ? strndup((const char *)list + PREFIX, size) : NULL;
}

/* Stops the handshake until the program has chosen the identities (tls_connection_answer). */
static int on_hello(SSL *ssl, int *alert, void *unused)
{
    (void)unused;
    tls_connection *connection = SSL_get_app_data(ssl);
    switch (connection->asking) {
    case ASKING_NOT_BEGUN:
        connection->name_asked = name_in_hello(ssl);
        connection->asking = ASKING_WAITS;
        return SSL_CLIENT_HELLO_RETRY;
    case ASKING_WAITS:
        return SSL_CLIENT_HELLO_RETRY;
    case ASKING_SERVED:
        return SSL_CLIENT_HELLO_SUCCESS;
    case ASKING_UNKNOWN:
        *alert = SSL_AD_UNRECOGNIZED_NAME;
        return SSL_CLIENT_HELLO_ERROR;
    case ASKING_FAILED:
        break;
    }
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
}

void tls_context_ask_identities(tls_context *context)
{
    SSL_CTX_set_client_hello_cb(context->groups[0], on_hello, NULL);
}

int tls_on_server_name(SSL *ssl, int *alert, void *argument)
{
    const tls_context *context = argument;
    const char *asked = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    /* Choosing a group would replace the connection's own identities. */
    if (((const tls_connection *)SSL_get_app_data(ssl))->has_own_identity)
        return asked ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
    const tls_name *found = asked ? find_group(context, asked) : NULL;
    if (!found) {
        *alert = SSL_AD_UNRECOGNIZED_NAME;
        if (context->refuses_unknown_names)
            return SSL_TLSEXT_ERR_ALERT_FATAL;
        return asked ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
    }
    if (found->group != 0 && !SSL_set_SSL_CTX(ssl, context->groups[found->group])) {
        *alert = SSL_AD_INTERNAL_ERROR;
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    return SSL_TLSEXT_ERR_OK;
}
