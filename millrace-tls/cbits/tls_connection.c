/* tls_connection.c - one connection: bytes received become plain bytes, plain bytes become bytes to send. */
#include "tls_internal.h"

#include "millrace_check.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A record has at most 16,384 plain bytes. With the default ciphers it is at most 64 bytes longer. If another cipher
 * adds more, the bytes that do not fit are kept for the next call. */
enum { RECORD_PLAIN_MAX = 16384, RECORD_EXTRA = 64 };

/* Answers to key updates are kept until the next send. A peer that causes more than this many bytes does not read them:
 * the connection fails. */
enum { KEPT_OUT_MAX = 65536 };

tls_connection *tls_connection_new(tls_context *context)
{
    ERR_clear_error();
    tls_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    SSL *ssl = SSL_new(context->groups[0]);
    BIO *bio = ssl ? tls_bio_new(connection) : NULL;
    if (!bio || SSL_set_app_data(ssl, connection) != 1 || pthread_mutex_init(&connection->lock, NULL) != 0) {
        BIO_free(bio);
        SSL_free(ssl);
        free(connection);
        return NULL;
    }
    connection->ssl = ssl;
    connection->alert_sent = connection->alert_received = -1;
    connection->context = context;
    tls_context_hold(context);
    SSL_set_bio(ssl, bio, bio);
    if (context->role == TLS_SERVER)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    return connection;
}

/* Offers a session of the same server. Without memory the client makes a full handshake. */
static void resume(tls_connection *connection, const char *name)
{
    char *copy = connection->context->sessions ? strdup(name) : NULL;
    for (char *c = copy; c && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    free(connection->expected);
    connection->expected = copy;
    tls_sessions_resume(connection);
}

bool tls_connection_expect(tls_connection *connection, const char *name)
{
    (void)pthread_mutex_lock(&connection->lock);
    ERR_clear_error();
    SSL *ssl = connection->ssl;
    bool is_set = ssl && X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    if (ssl && !is_set) {
        /* Only alternative names count as names, not the certificate's subject (RFC 9525, section 2). */
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
        is_set =
            SSL_set_tlsext_host_name(ssl, name) == 1 && X509_VERIFY_PARAM_set1_host(SSL_get0_param(ssl), name, 0) == 1;
    }
    if (is_set)
        resume(connection, name);
    ERR_clear_error();
    (void)pthread_mutex_unlock(&connection->lock);
    return is_set;
}

void tls_connection_close(tls_connection *connection)
{
    (void)pthread_mutex_lock(&connection->lock);
    if (connection->ssl) {
        /* Without this, OpenSSL would mark the session as not resumable. */
        if (!connection->has_failed && connection->has_handshake)
            SSL_set_shutdown(connection->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        SSL_free(connection->ssl);
        connection->ssl = NULL;
        tls_bytes_clear(&connection->kept_in);
        tls_bytes_clear(&connection->unread);
        tls_bytes_clear(&connection->kept_out);
        free(connection->expected);
        free(connection->name_asked);
        connection->expected = connection->name_asked = NULL;
        tls_context_release(connection->context);
        connection->context = NULL;
    }
    (void)pthread_mutex_unlock(&connection->lock);
}

void tls_connection_free(tls_connection *connection)
{
    tls_connection_close(connection);
    tls_failure_free(connection);
    (void)pthread_mutex_destroy(&connection->lock);
    free(connection);
}

/* Steps *********************************************************************************************************** */

static void begin(tls_connection *connection, const uint8_t *in, size_t in_count, uint8_t *out, size_t out_capacity)
{
    (void)pthread_mutex_lock(&connection->lock);
    connection->in = in;
    connection->in_left = in_count;
    connection->out = out;
    connection->out_count = 0;
    connection->out_capacity = out_capacity;
    connection->is_starved = false;
    connection->kept_before = 0;
}

/* Keeps the input that OpenSSL has not read. */
static void keep_input(tls_connection *connection)
{
    if (connection->in_left > 0 && !connection->has_failed &&
        !tls_bytes_append(&connection->kept_in, connection->in, connection->in_left))
        tls_failure_set(connection, TLS_PROBLEM_NO_MEMORY, "");
}

static bool has_input(const tls_connection *connection)
{
    return !connection->ssl || connection->has_ended || connection->has_failed ||
           tls_bytes_count(&connection->unread) > 0 || tls_bytes_count(&connection->kept_in) > 0 ||
           SSL_pending(connection->ssl) > 0;
}

/* A tls_step has 28 bits for each of its two numbers of bytes. */
#define STEP_BYTES ((size_t)1 << 28)

static tls_step finish(tls_connection *connection, tls_status status, size_t plain)
{
    MR_CHECK(plain < STEP_BYTES && connection->out_count < STEP_BYTES); /* more would change the other bits */
    tls_step step = (tls_step)plain | (tls_step)connection->out_count << 28 | (tls_step)status << 56 |
                    (tls_step)(tls_bytes_count(&connection->kept_out) > connection->kept_before) << 60 |
                    (tls_step)has_input(connection) << 61;
    if (tls_bytes_count(&connection->kept_out) == 0)
        atomic_store_explicit(&connection->holds_back, false, memory_order_relaxed);
    connection->in = NULL;
    connection->in_left = 0;
    connection->out = NULL;
    connection->out_count = connection->out_capacity = 0;
    (void)pthread_mutex_unlock(&connection->lock);
    return step;
}

/* OpenSSL's errors stay in the OS thread until they are cleared. There are hardly ever any, and ERR_peek_error costs a
 * quarter of ERR_clear_error. */
static void forget_errors(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

/* Whether the latest call of OpenSSL stopped only because it needs more input. */
static bool needs_only_input(const tls_connection *connection)
{
    return connection->is_starved && !connection->is_without_memory && ERR_peek_error() == 0;
}

/* True if OpenSSL only needs more input. Otherwise records the end or the failure of the connection, and returns false.
 * */
static bool only_wants_input(tls_connection *connection, int result)
{
    if (needs_only_input(connection))
        return true;
    int problem = SSL_get_error(connection->ssl, result);
    if (problem == SSL_ERROR_ZERO_RETURN)
        connection->has_ended = true;
    else
        tls_failure_note(connection, problem);
    ERR_clear_error();
    return false;
}

/* Keeps the tickets of a TLS 1.3 server until its first answer, so that both go with one system call. */
static void hold_back_tickets(tls_connection *connection)
{
    if (connection->context->role != TLS_SERVER || SSL_version(connection->ssl) < TLS1_3_VERSION)
        return;
    if (connection->out_count == 0 ||
        !tls_bytes_put_back(&connection->kept_out, connection->out, connection->out_count))
        return;
    connection->out_count = 0;
    atomic_store_explicit(&connection->holds_back, true, memory_order_relaxed);
}

tls_step tls_connection_handshake(tls_connection *connection, const uint8_t *in, size_t in_count, uint8_t *out,
                                  size_t out_capacity)
{
    begin(connection, in, in_count, out, out_capacity);
    if (!connection->ssl)
        return finish(connection, TLS_CLOSED, 0);
    if (connection->has_failed)
        return finish(connection, TLS_FAILED, 0);
    connection->out_count = tls_bytes_take(&connection->kept_out, out, out_capacity);
    ERR_clear_error();
    int result = SSL_do_handshake(connection->ssl);
    if (result == 1) {
        connection->has_handshake = true;
        hold_back_tickets(connection);
        tls_sessions_note_handshake(connection);
    }
    bool wants_identity = result != 1 && connection->asking == ASKING_WAITS;
    bool wants_input = result != 1 && !wants_identity && only_wants_input(connection, result);
    if (connection->has_ended && !connection->has_handshake)
        tls_failure_set(connection, TLS_PROBLEM_ALERT, "close_notify during the handshake");
    keep_input(connection);
    if (connection->has_failed) {
        tls_sessions_forget(connection);
        return finish(connection, TLS_FAILED, 0);
    }
    if (wants_identity)
        return finish(connection, TLS_WANTS_IDENTITY, 0);
    return finish(connection, wants_input ? TLS_WANTS_INPUT : TLS_DONE, 0);
}

const char *tls_connection_name_asked(tls_connection *connection)
{
    (void)pthread_mutex_lock(&connection->lock);
    const char *name = connection->name_asked;
    (void)pthread_mutex_unlock(&connection->lock);
    return name;
}

bool tls_connection_use(tls_connection *connection, const tls_identity *identity)
{
    (void)pthread_mutex_lock(&connection->lock);
    ERR_clear_error();
    /* Otherwise the context's identities could be used, too. */
    if (connection->ssl && !connection->has_own_identity)
        SSL_certs_clear(connection->ssl);
    bool is_used = connection->ssl &&
                   SSL_use_cert_and_key(connection->ssl, identity->certificate, identity->key, identity->chain, 1) == 1;
    connection->has_own_identity |= is_used;
    (void)pthread_mutex_unlock(&connection->lock);
    return is_used;
}

void tls_connection_answer(tls_connection *connection, tls_name_answer answer)
{
    static const tls_asking asking[] = {
        [TLS_NAME_SERVED] = ASKING_SERVED, [TLS_NAME_UNKNOWN] = ASKING_UNKNOWN, [TLS_NAME_FAILED] = ASKING_FAILED};
    (void)pthread_mutex_lock(&connection->lock);
    connection->asking = asking[answer];
    free(connection->name_asked);
    connection->name_asked = NULL;
    (void)pthread_mutex_unlock(&connection->lock);
}

/* Reads plain bytes until `plain` is full, there is no more input, or the connection has ended or failed. Returns how
 * many. */
static size_t read_plain(tls_connection *connection, uint8_t *plain, size_t capacity)
{
    size_t got = 0;
    while (got < capacity) {
        size_t count = 0;
        forget_errors();
        connection->is_starved = false;
        int result = SSL_read_ex(connection->ssl, plain + got, capacity - got, &count);
        if (result <= 0) {
            (void)only_wants_input(connection, result);
            break;
        }
        got += count;
        if (connection->in_left == 0 && tls_bytes_count(&connection->kept_in) == 0 && !SSL_has_pending(connection->ssl))
            break;
    }
    return got;
}

/* Call it after `begin`. */
static tls_step receive(tls_connection *connection, uint8_t *plain, size_t capacity)
{
    connection->kept_before = tls_bytes_count(&connection->kept_out);
    size_t got = tls_bytes_take(&connection->unread, plain, capacity);
    if (got < capacity && !connection->has_ended && !connection->has_failed)
        got += read_plain(connection, plain + got, capacity - got);
    keep_input(connection);
    if (tls_bytes_count(&connection->kept_out) > KEPT_OUT_MAX)
        tls_failure_set(connection, TLS_PROBLEM_FLOOD, "");
    if (got > 0)
        return finish(connection, TLS_DONE, got);
    if (connection->has_failed)
        return finish(connection, TLS_FAILED, 0);
    return finish(connection, connection->has_ended ? TLS_ENDED : TLS_WANTS_INPUT, 0);
}

tls_step tls_connection_receive(tls_connection *connection, const uint8_t *in, size_t in_count, uint8_t *plain,
                                size_t capacity)
{
    begin(connection, in, in_count, NULL, 0);
    return connection->ssl ? receive(connection, plain, capacity) : finish(connection, TLS_CLOSED, 0);
}

tls_step tls_connection_receive_in_place(tls_connection *connection, uint8_t *buffer, size_t count, size_t capacity)
{
    begin(connection, buffer, count, NULL, 0);
    if (!connection->ssl)
        return finish(connection, TLS_CLOSED, 0);
    /* OpenSSL copies a record before it decrypts it, and a record is longer than its plain bytes. So plain bytes never
     * overwrite input that was not read. But if there are bytes left from earlier input, the new input must be copied
     * first. */
    if (has_input(connection) || SSL_has_pending(connection->ssl)) {
        keep_input(connection);
        connection->in_left = 0;
    }
    return receive(connection, buffer, capacity);
}

bool tls_connection_has_input(tls_connection *connection)
{
    (void)pthread_mutex_lock(&connection->lock);
    bool has = has_input(connection);
    (void)pthread_mutex_unlock(&connection->lock);
    return has;
}

bool tls_connection_holds_back(tls_connection *connection)
{
    return atomic_load_explicit(&connection->holds_back, memory_order_relaxed);
}

void tls_connection_unread(tls_connection *connection, const uint8_t *plain, size_t count)
{
    (void)pthread_mutex_lock(&connection->lock);
    if (connection->ssl && !tls_bytes_put_back(&connection->unread, plain, count))
        tls_failure_set(connection, TLS_PROBLEM_NO_MEMORY, "");
    (void)pthread_mutex_unlock(&connection->lock);
}

/* How many plain bytes the next record may have; 0 if no record fits. */
static size_t next_record(const tls_connection *connection, size_t left)
{
    size_t capacity = connection->out_capacity - connection->out_count;
    if (tls_bytes_count(&connection->kept_out) > 0 || capacity <= RECORD_EXTRA)
        return 0;
    size_t most = capacity - RECORD_EXTRA < RECORD_PLAIN_MAX ? capacity - RECORD_EXTRA : RECORD_PLAIN_MAX;
    return left < most ? left : most;
}

/* TLS_DONE if the connection can send, otherwise the reason. */
static tls_status can_send(const tls_connection *connection)
{
    if (!connection->ssl)
        return TLS_CLOSED;
    if (connection->has_failed)
        return TLS_FAILED;
    return SSL_get_shutdown(connection->ssl) & SSL_SENT_SHUTDOWN ? TLS_SENDING_ENDED : TLS_DONE;
}

/* Makes one record, and records a failure. TLS_WANTS_INPUT: a message of the peer has arrived only in part, and OpenSSL
 * needs the rest first. */
static tls_status seal(tls_connection *connection, const uint8_t *plain, size_t count)
{
    size_t written = 0;
    connection->is_starved = false;
    forget_errors();
    int result = SSL_write_ex(connection->ssl, plain, count, &written);
    if (result == 1)
        return TLS_DONE;
    if (needs_only_input(connection))
        return TLS_WANTS_INPUT;
    tls_failure_note(connection, SSL_get_error(connection->ssl, result));
    ERR_clear_error();
    return TLS_FAILED;
}

/* Makes a close_notify, once. */
static void announce_end(tls_connection *connection)
{
    ERR_clear_error();
    if (connection->ssl && !connection->has_failed && connection->has_handshake &&
        !(SSL_get_shutdown(connection->ssl) & SSL_SENT_SHUTDOWN))
        (void)SSL_shutdown(connection->ssl);
    ERR_clear_error();
}

/* Ends a step that has sealed `done` plain bytes and stopped with this status. The next step finds TLS_WANTS_INPUT
 * again. */
static tls_step finish_sending(tls_connection *connection, tls_status status, size_t done)
{
    return finish(connection, status == TLS_WANTS_INPUT && done > 0 ? TLS_DONE : status, done);
}

/* Call it after `begin`. Seals as many plain bytes as fit into the caller's memory, and returns how many. */
static size_t seal_some(tls_connection *connection, const uint8_t *plain, size_t count, tls_status *status)
{
    connection->out_count = tls_bytes_take(&connection->kept_out, connection->out, connection->out_capacity);
    size_t done = 0;
    for (size_t record = 0; (record = next_record(connection, count - done)) > 0; done += record)
        if ((*status = seal(connection, plain + done, record)) != TLS_DONE)
            break;
    return done;
}

tls_step tls_connection_send(tls_connection *connection, const uint8_t *plain, size_t count, uint8_t *out,
                             size_t out_capacity)
{
    begin(connection, NULL, 0, out, out_capacity);
    tls_status status = can_send(connection);
    size_t done = status == TLS_DONE ? seal_some(connection, plain, count, &status) : 0;
    return finish_sending(connection, status, done);
}

tls_step tls_connection_send_last(tls_connection *connection, const uint8_t *plain, size_t count, uint8_t *out,
                                  size_t out_capacity)
{
    begin(connection, NULL, 0, out, out_capacity);
    tls_status status = can_send(connection);
    size_t done = status == TLS_DONE ? seal_some(connection, plain, count, &status) : 0;
    if (status == TLS_DONE && done == count)
        announce_end(connection);
    return finish_sending(connection, status, done);
}

tls_step tls_connection_send_in_place(tls_connection *connection, uint8_t *buffer, size_t count, size_t capacity)
{
    begin(connection, NULL, 0, buffer, capacity);
    tls_status status = can_send(connection);
    if (status != TLS_DONE)
        return finish(connection, status, 0);
    size_t kept = tls_bytes_count(&connection->kept_out);
    if (count > RECORD_PLAIN_MAX || kept + count + RECORD_EXTRA > capacity)
        return finish(connection, TLS_DONE, 0);
    /* OpenSSL copies the plain bytes before it writes their record. Bytes that were kept before must be sent first:
     * then the record is kept behind them, and all are moved to the buffer. A record that announces new keys comes
     * before, too. It would overwrite the plain bytes before they are copied, so it is kept. */
    bool is_kept = kept > 0 || SSL_get_key_update_type(connection->ssl) != SSL_KEY_UPDATE_NONE;
    connection->out_capacity = is_kept ? 0 : capacity;
    status = seal(connection, buffer, count);
    connection->out_capacity = capacity;
    if (is_kept && status == TLS_DONE)
        connection->out_count = tls_bytes_take(&connection->kept_out, buffer, capacity);
    return finish_sending(connection, status, status == TLS_DONE ? count : 0);
}

tls_step tls_connection_send_later(tls_connection *connection, const uint8_t *plain, size_t count)
{
    begin(connection, NULL, 0, NULL, 0);
    tls_status status = can_send(connection);
    if (status != TLS_DONE)
        return finish(connection, status, 0);
    if ((status = seal(connection, plain, count)) != TLS_DONE)
        return finish_sending(connection, status, 0);
    return finish(connection, TLS_DONE, count);
}

tls_step tls_connection_send_file(tls_connection *connection, int file, int64_t offset, size_t count, uint8_t *out,
                                  size_t out_capacity)
{
    uint8_t plain[RECORD_PLAIN_MAX];
    begin(connection, NULL, 0, out, out_capacity);
    tls_status status = can_send(connection);
    if (status != TLS_DONE)
        return finish(connection, status, 0);
    connection->out_count = tls_bytes_take(&connection->kept_out, out, out_capacity);
    size_t done = 0;
    for (size_t record = 0; (record = next_record(connection, count - done)) > 0;) {
        ssize_t got = pread(file, plain, record, (off_t)(offset + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && done == 0)
            return finish(connection, TLS_BAD_FILE, (size_t)errno);
        if (got <= 0)
            break;
        if ((status = seal(connection, plain, (size_t)got)) != TLS_DONE)
            break;
        done += (size_t)got;
    }
    return finish_sending(connection, status, done);
}

tls_step tls_connection_collect(tls_connection *connection, uint8_t *out, size_t out_capacity)
{
    begin(connection, NULL, 0, out, out_capacity);
    if (!connection->ssl)
        return finish(connection, TLS_CLOSED, 0);
    connection->out_count = tls_bytes_take(&connection->kept_out, out, out_capacity);
    return finish(connection, TLS_DONE, 0);
}

void tls_connection_put_back(tls_connection *connection, const uint8_t *out, size_t count)
{
    (void)pthread_mutex_lock(&connection->lock);
    if (connection->ssl && !tls_bytes_put_back(&connection->kept_out, out, count))
        tls_failure_set(connection, TLS_PROBLEM_NO_MEMORY, "");
    (void)pthread_mutex_unlock(&connection->lock);
}

void tls_connection_end(tls_connection *connection)
{
    begin(connection, NULL, 0, NULL, 0);
    announce_end(connection);
    (void)finish(connection, TLS_DONE, 0);
}

bool tls_connection_is_over(tls_connection *connection)
{
    (void)pthread_mutex_lock(&connection->lock);
    bool over = !connection->ssl || connection->has_ended || connection->has_failed;
    (void)pthread_mutex_unlock(&connection->lock);
    return over;
}

/* What was negotiated ********************************************************************************************* */

/* Locks the connection, and returns its SSL; NULL if it is closed. */
static SSL *begin_look(tls_connection *connection)
{
    (void)pthread_mutex_lock(&connection->lock);
    return connection->ssl;
}

static void end_look(tls_connection *connection)
{
    (void)pthread_mutex_unlock(&connection->lock);
}

int tls_connection_version(tls_connection *connection)
{
    const SSL *ssl = begin_look(connection);
    int version = ssl ? SSL_version(ssl) : 0;
    end_look(connection);
    return version;
}

const char *tls_connection_cipher(tls_connection *connection)
{
    const SSL *ssl = begin_look(connection);
    const char *name = ssl ? SSL_CIPHER_get_name(SSL_get_current_cipher(ssl)) : NULL;
    end_look(connection);
    return name;
}

const char *tls_connection_group(tls_connection *connection)
{
    SSL *ssl = begin_look(connection);
    int number = ssl ? (int)SSL_get_negotiated_group(ssl) : 0;
    const char *name = number == 0 ? NULL : SSL_group_to_name(ssl, number);
    end_look(connection);
    return name;
}

bool tls_connection_is_resumed(tls_connection *connection)
{
    const SSL *ssl = begin_look(connection);
    bool is_resumed = ssl && SSL_session_reused(ssl) != 0;
    end_look(connection);
    return is_resumed;
}

size_t tls_connection_protocol(tls_connection *connection, const uint8_t **name)
{
    unsigned length = 0;
    const SSL *ssl = begin_look(connection);
    if (ssl)
        SSL_get0_alpn_selected(ssl, name, &length);
    end_look(connection);
    return length;
}

const char *tls_connection_server_name(tls_connection *connection)
{
    const SSL *ssl = begin_look(connection);
    const char *name = ssl ? SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) : NULL;
    end_look(connection);
    return name;
}

tls_certificate *tls_connection_peer_certificate(tls_connection *connection)
{
    const SSL *ssl = begin_look(connection);
    X509 *certificate = ssl ? SSL_get1_peer_certificate(ssl) : NULL;
    end_look(connection);
    return certificate;
}

const tls_failure *tls_connection_failure(tls_connection *connection)
{
    return connection->has_failed ? connection->failure : NULL;
}
