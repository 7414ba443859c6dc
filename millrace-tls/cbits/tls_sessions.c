/*
 * tls_sessions.c - the sessions that a client can resume, by the name of the server. Must not know: system calls,
 * sockets.
 *
 * Resuming a session skips the verification of the server's certificate. So a session belongs to the context whose
 * settings the certificate was verified with, and to the name that was verified. A resumed connection brings new
 * tickets. They keep the time of the first verification, so that the certificate is verified again from time to time.
 */
#include "tls_internal.h"

#include "millrace_check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SESSIONS_MAX = 256, SESSIONS_OF_NAME_MAX = 4 };

/* After this time the certificate must be verified again. */
enum { TRUSTED_SECONDS = 7200 };

typedef struct known_session {
    char *name; /* NULL: nothing here */
    SSL_SESSION *session;
    time_t verified;
    uint64_t number; /* larger: newer */
} known_session;

struct tls_sessions {
    pthread_mutex_t lock;
    uint64_t next;
    known_session known[SESSIONS_MAX];
};

static void forget(known_session *one)
{
    free(one->name);
    SSL_SESSION_free(one->session);
    *one = (known_session){0};
}

void tls_sessions_free(tls_sessions *sessions)
{
    if (!sessions)
        return;
    for (int i = 0; i < SESSIONS_MAX; i++)
        forget(&sessions->known[i]);
    (void)pthread_mutex_destroy(&sessions->lock);
    free(sessions);
}

/* When the session was made. OpenSSL 3.4 has a function that also works after 2038, and deprecates the older one. */
static time_t established(const SSL_SESSION *session)
{
#if OPENSSL_VERSION_PREREQ(3, 4)
    return SSL_SESSION_get_time_ex(session);
#else
    return (time_t)SSL_SESSION_get_time(session);
#endif
}

/* Whether the session is too old, or not resumable for OpenSSL. */
static bool is_over(const known_session *one, time_t now)
{
    if (now - one->verified >= TRUSTED_SECONDS || now < one->verified || !SSL_SESSION_is_resumable(one->session))
        return true;
    unsigned long lifetime = SSL_SESSION_get_ticket_lifetime_hint(one->session);
    if (lifetime > 0 && now - established(one->session) >= (time_t)lifetime)
        return true;
    const X509 *certificate = SSL_SESSION_get0_peer(one->session);
    return certificate && ASN1_TIME_cmp_time_t(X509_get0_notAfter(certificate), now) <= 0;
}

/* The slot for a new session with this name: an empty one, or that of the oldest session if the name has all its slots
 * or the table is full. */
static known_session *slot_for(tls_sessions *sessions, const char *name)
{
    known_session *empty = NULL;
    known_session *oldest = NULL;
    known_session *oldest_of_name = NULL;
    int of_name = 0;
    for (known_session *one = sessions->known; one < sessions->known + SESSIONS_MAX; one++) {
        if (!one->name) {
            empty = one;
            continue;
        }
        if (!oldest || one->number < oldest->number)
            oldest = one;
        if (strcmp(one->name, name) != 0)
            continue;
        of_name++;
        if (!oldest_of_name || one->number < oldest_of_name->number)
            oldest_of_name = one;
    }
    if (of_name >= SESSIONS_OF_NAME_MAX)
        return oldest_of_name;
    return empty ? empty : oldest;
}

static bool knows(const tls_sessions *sessions, const SSL_SESSION *session)
{
    for (int i = 0; i < SESSIONS_MAX; i++)
        if (sessions->known[i].session == session)
            return true;
    return false;
}

void tls_sessions_keep(tls_connection *connection, SSL_SESSION *session)
{
    tls_sessions *sessions = connection->context->sessions;
    char *name = connection->expected ? strdup(connection->expected) : NULL;
    if (!name)
        return;
    (void)pthread_mutex_lock(&sessions->lock);
    if (!knows(sessions, session) && SSL_SESSION_up_ref(session) == 1) {
        known_session *slot = slot_for(sessions, name);
        MR_CHECK(slot);
        forget(slot);
        *slot = (known_session){
            .name = name, .session = session, .verified = connection->verified, .number = sessions->next++};
        name = NULL;
    }
    (void)pthread_mutex_unlock(&sessions->lock);
    free(name);
}

/* The newest session for a name; NULL if there is none. */
static known_session *find(tls_sessions *sessions, const char *name, time_t now)
{
    known_session *newest = NULL;
    for (known_session *one = sessions->known; one < sessions->known + SESSIONS_MAX; one++) {
        if (!one->name || strcmp(one->name, name) != 0)
            continue;
        if (is_over(one, now))
            forget(one);
        else if (!newest || one->number > newest->number)
            newest = one;
    }
    return newest;
}

void tls_sessions_resume(tls_connection *connection)
{
    tls_sessions *sessions = connection->context->sessions;
    time_t now = time(NULL);
    connection->verified = now;
    if (!sessions || !connection->expected)
        return;
    (void)pthread_mutex_lock(&sessions->lock);
    known_session *found = find(sessions, connection->expected, now);
    if (found && SSL_set_session(connection->ssl, found->session) == 1) {
        connection->verified_before = found->verified;
        /* A TLS 1.3 ticket is used once: with a second use, an observer of the network could tell that it is the same
         * client (RFC 8446, appendix C.4). A TLS 1.2 session can be used again. */
        if (SSL_SESSION_get_protocol_version(found->session) == TLS1_3_VERSION)
            forget(found);
    }
    (void)pthread_mutex_unlock(&sessions->lock);
}

void tls_sessions_note_handshake(tls_connection *connection)
{
    if (!connection->context->sessions || SSL_session_reused(connection->ssl) == 0)
        return;
    connection->verified = connection->verified_before;
    /* In TLS 1.2, OpenSSL does not report a new ticket that replaces the one used. */
    if (SSL_version(connection->ssl) < TLS1_3_VERSION)
        tls_sessions_keep(connection, SSL_get0_session(connection->ssl));
}

void tls_sessions_forget(tls_connection *connection)
{
    tls_sessions *sessions = connection->context->sessions;
    if (!sessions || !connection->expected)
        return;
    (void)pthread_mutex_lock(&sessions->lock);
    for (known_session *one = sessions->known; one < sessions->known + SESSIONS_MAX; one++)
        if (one->name && strcmp(one->name, connection->expected) == 0)
            forget(one);
    (void)pthread_mutex_unlock(&sessions->lock);
}

/* OpenSSL has a new session. Returns 0 because tls_sessions_keep takes its own reference. */
static int on_session(SSL *ssl, SSL_SESSION *session)
{
    tls_sessions_keep(SSL_get_app_data(ssl), session);
    return 0;
}

bool tls_context_resume(tls_context *context)
{
    context->sessions = calloc(1, sizeof *context->sessions);
    if (!context->sessions)
        return false;
    (void)pthread_mutex_init(&context->sessions->lock, NULL);
    SSL_CTX_set_session_cache_mode(context->groups[0], SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context->groups[0], on_session);
    return true;
}
