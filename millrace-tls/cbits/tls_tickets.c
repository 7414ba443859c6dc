/* tls_tickets.c - the keys that protect session tickets, and their rotation. Must not know: system calls, sockets. */
#include "tls_internal.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAME_SIZE = 16, SECRET_SIZE = 32, KEYS_MAX = 16, KEYS_KEPT = 3 };

/* A random key encrypts new tickets for this time, and decrypts tickets for twice that time afterwards. */
enum { ROTATION_SECONDS = 3600 };

typedef struct ticket_key {
    unsigned char name[NAME_SIZE];
    unsigned char cipher[SECRET_SIZE];
    unsigned char mac[SECRET_SIZE];
    time_t since;
} ticket_key;

struct tls_tickets {
    atomic_size_t references;
    pthread_mutex_t lock;
    bool is_given; /* the keys are the caller's, and stay as they are */
    int count;
    ticket_key keys[KEYS_MAX]; /* the first one encrypts new tickets */
    EVP_CIPHER *cipher;
};

static bool make_key(ticket_key *key)
{
    *key = (ticket_key){.since = time(NULL)};
    return RAND_bytes(key->name, sizeof key->name) == 1 && RAND_bytes(key->cipher, sizeof key->cipher) == 1 &&
           RAND_bytes(key->mac, sizeof key->mac) == 1;
}

static void destroy(tls_tickets *tickets)
{
    EVP_CIPHER_free(tickets->cipher);
    (void)pthread_mutex_destroy(&tickets->lock);
    OPENSSL_cleanse(tickets->keys, sizeof tickets->keys);
    free(tickets);
}

tls_tickets *tls_tickets_new(void)
{
    tls_tickets *tickets = calloc(1, sizeof *tickets);
    if (!tickets)
        return NULL;
    atomic_init(&tickets->references, 1);
    (void)pthread_mutex_init(&tickets->lock, NULL);
    tickets->cipher = EVP_CIPHER_fetch(NULL, "AES-256-CBC", NULL);
    tickets->count = 1;
    if (tickets->cipher && make_key(&tickets->keys[0]))
        return tickets;
    destroy(tickets);
    return NULL;
}

void tls_tickets_hold(tls_tickets *tickets)
{
    atomic_fetch_add_explicit(&tickets->references, 1, memory_order_relaxed);
}

void tls_tickets_release(tls_tickets *tickets)
{
    if (tickets && atomic_fetch_sub_explicit(&tickets->references, 1, memory_order_acq_rel) == 1)
        destroy(tickets);
}

bool tls_tickets_set_keys(tls_tickets *tickets, const uint8_t *keys, size_t count)
{
    if (count < 1 || count > KEYS_MAX)
        return false;
    (void)pthread_mutex_lock(&tickets->lock);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *key = keys + i * TLS_TICKET_KEY_SIZE;
        memcpy(tickets->keys[i].name, key, NAME_SIZE);
        memcpy(tickets->keys[i].mac, key + NAME_SIZE, SECRET_SIZE);
        memcpy(tickets->keys[i].cipher, key + NAME_SIZE + SECRET_SIZE, SECRET_SIZE);
    }
    tickets->count = (int)count;
    tickets->is_given = true;
    (void)pthread_mutex_unlock(&tickets->lock);
    return true;
}

/* The key for new tickets. */
static bool newest(tls_tickets *tickets, ticket_key *key)
{
    (void)pthread_mutex_lock(&tickets->lock);
    bool is_good = true;
    if (!tickets->is_given && time(NULL) - tickets->keys[0].since >= ROTATION_SECONDS) {
        ticket_key next;
        is_good = make_key(&next);
        if (is_good) {
            tickets->count = tickets->count < KEYS_KEPT ? tickets->count + 1 : KEYS_KEPT;
            memmove(&tickets->keys[1], &tickets->keys[0], (size_t)(tickets->count - 1) * sizeof(ticket_key));
            tickets->keys[0] = next;
        }
    }
    *key = tickets->keys[0];
    (void)pthread_mutex_unlock(&tickets->lock);
    return is_good;
}

/* The position of the key with this name; -1 if there is none or it is too old. */
static int find(tls_tickets *tickets, const unsigned char *name, ticket_key *key)
{
    int found = -1;
    (void)pthread_mutex_lock(&tickets->lock);
    for (int i = 0; i < tickets->count && found < 0; i++) {
        bool is_too_old =
            !tickets->is_given && time(NULL) - tickets->keys[i].since >= (time_t)KEYS_KEPT * ROTATION_SECONDS;
        if (!is_too_old && memcmp(tickets->keys[i].name, name, NAME_SIZE) == 0) {
            *key = tickets->keys[i];
            found = i;
        }
    }
    (void)pthread_mutex_unlock(&tickets->lock);
    return found;
}

static bool set_mac(EVP_MAC_CTX *mac, ticket_key *key)
{
    OSSL_PARAM settings[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof key->mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(mac, settings) == 1;
}

/* OpenSSL's callback. Returns 1 if the ticket is good, 2 if it is good and must be replaced, 0 if its key is unknown,
 * -1 on failure. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                     int seals)
{
    tls_tickets *tickets = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    ticket_key key;
    if (!tickets)
        return seals ? -1 : 0;
    if (seals) {
        bool is_good = newest(tickets, &key) && RAND_bytes(iv, EVP_CIPHER_get_iv_length(tickets->cipher)) == 1 &&
                       EVP_EncryptInit_ex2(cipher, tickets->cipher, key.cipher, iv, NULL) == 1 && set_mac(mac, &key);
        memcpy(name, key.name, NAME_SIZE);
        OPENSSL_cleanse(&key, sizeof key);
        return is_good ? 1 : -1;
    }
    int position = find(tickets, name, &key);
    if (position < 0)
        return 0;
    bool is_good = EVP_DecryptInit_ex2(cipher, tickets->cipher, key.cipher, iv, NULL) == 1 && set_mac(mac, &key);
    OPENSSL_cleanse(&key, sizeof key);
    if (!is_good)
        return -1;
    /* In TLS 1.3 a client should use a ticket only once (RFC 8446, appendix C.4), so it always gets a new one. */
    return position == 0 && SSL_version(ssl) != TLS1_3_VERSION ? 1 : 2;
}

void tls_context_use_tickets(tls_context *context, tls_tickets *tickets)
{
    tls_tickets_hold(tickets);
    tls_tickets_release(context->tickets);
    context->tickets = tickets;
    for (int i = 0; i < context->group_count; i++) {
        /* Without memory the group keeps OpenSSL's own keys. */
        if (SSL_CTX_set_app_data(context->groups[i], tickets) == 1)
            SSL_CTX_set_tlsext_ticket_key_evp_cb(context->groups[i], on_ticket);
    }
}

void tls_context_refuse_tickets(tls_context *context)
{
    for (int i = 0; i < context->group_count; i++) {
        SSL_CTX_set_options(context->groups[i], SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(context->groups[i], 0);
    }
}
