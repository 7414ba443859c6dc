/*
 * http3_connection.c - a connection on ngtcp2: its beginning, packets that arrive, and its end. Must not know: GHC,
 * sockets, the clock.
 *
 * ngtcp2's callbacks run as those of http3_requests.c.
 *
 * A connection that ends gives back the libraries' memory at once. What remains is a small record with its last
 * packet, so that late packets of the client are recognised (RFC 9000, section 10.2).
 */
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "http3_internal.h"

/* Streams of the client that carry no requests: control, QPACK, and some of unknown types (RFC 9114, section 6.2). */
#define UNI_STREAMS       8u
#define UNI_STREAM_WINDOW 65536u

/* IDs that a client may give us (RFC 9000, section 18.2). */
#define CLIENT_IDS 4u

#define RANDOM_LENGTH (HTTP3_ID_LENGTH - 2)

/* Over Ethernet, larger datagrams are not tried, and this one is tried before larger ones. */
#define ORDINARY_DATAGRAM 1452u

/* The limit of records of ended connections. */
#define ENDING_MAX 4096u

/* ------------------------------------------------------------------------------------------------------------------
 * ngtcp2's callbacks */

/* The record of a request, from its first byte on. */
static http_stream *request_of(http3_connection *connection, int64_t id, http_stream *known)
{
    http_stream *stream = known == NULL ? http3_new_stream(connection, id) : known;
    if (stream != known)
        (void)ngtcp2_conn_set_stream_user_data(connection->quic, id, stream);
    return stream;
}

static int on_stream_data(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t offset, const uint8_t *bytes,
                          size_t length, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http_stream *known = stream_data;
    int is_last = (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0;
    (void)quic, (void)offset;
    if (connection->http == NULL)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    connection->received += length;
    connection->reads_early = (flags & NGTCP2_STREAM_DATA_FLAG_0RTT) != 0;
    if (!ngtcp2_is_bidi_stream(id))
        return http3_read_bytes(connection, id, bytes, length, is_last) < 0 ? NGTCP2_ERR_CALLBACK_FAILURE : 0;
    if (length > 0 && known != NULL && http3_own(known)->has_head)
        http_conduct_earn(&connection->streams.conduct, HTTP3_PACKET_FRAMES);
    connection->reading = request_of(connection, id, known);
    return connection->reading == NULL ||
                   http3_read_request(connection, connection->reading, bytes, length, is_last) != 0
               ? NGTCP2_ERR_CALLBACK_FAILURE
               : 0;
}

/* libnghttp3 1.8 forgets an end without bytes that waits, for instance for the congestion window, when it hears that
 * all before it was acknowledged. So it hears that later. */
static int on_acknowledged(ngtcp2_conn *quic, int64_t id, uint64_t offset, uint64_t length, void *data,
                           void *stream_data)
{
    http3_connection *connection = data;
    http_stream *stream = stream_data;
    (void)quic, (void)offset;
    if (connection->http == NULL)
        return 0;
    http_conduct_earn(&connection->streams.conduct, 2 * HTTP3_PACKET_FRAMES);
    if (stream != NULL && http3_own(stream)->end_waits)
        http3_own(stream)->unreported += length;
    else if (http3_tell_acknowledged(connection, id, length) != 0)
        return NGTCP2_ERR_CALLBACK_FAILURE;
    if (stream != NULL)
        http3_note_confirmed(stream, length);
    return 0;
}

static int on_stream_close(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t code, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http_stream *stream = stream_data;
    if (connection->http == NULL)
        return 0;
    if (!(flags & NGTCP2_STREAM_CLOSE_FLAG_APP_ERROR_CODE_SET))
        code = HTTP3_NO_ERROR;
    /* The client wanted nothing more of the response (STOP_SENDING), before there was anything to be sent. */
    else if (stream != NULL && !stream->has_stopped && http3_is_cancelled_too_often(connection, stream))
        return NGTCP2_ERR_CALLBACK_FAILURE;
    http_stream *unknown = stream != NULL && !http3_own(stream)->has_head ? stream : NULL; /* to libnghttp3 */
    int result = nghttp3_conn_close_stream(connection->http, id, code);                    /* may free the record */
    if (result != 0 && result != NGHTTP3_ERR_STREAM_NOT_FOUND)
        return http3_failed(connection, result);
    if (!ngtcp2_is_bidi_stream(id)) {
        if (!ngtcp2_conn_is_local_stream(quic, id))
            ngtcp2_conn_extend_max_streams_uni(quic, 1);
    } else if (stream == NULL) { /* nothing had arrived */
        ngtcp2_conn_extend_max_streams_bidi(quic, 1);
    } else if (unknown != NULL) {
        http3_close_stream(unknown);
    }
    return 0;
}

static int on_stream_reset(ngtcp2_conn *quic, int64_t id, uint64_t size, uint64_t code, void *data, void *stream_data)
{
    http3_connection *connection = data;
    http_stream *stream = stream_data;
    (void)size, (void)code;
    /* It stops, as it was asked to. A response that has begun continues (RFC 9114, section 4.1). */
    if (stream != NULL && stream->has_stopped)
        return 0;
    if (http3_is_cancelled_too_often(connection, stream))
        return NGTCP2_ERR_CALLBACK_FAILURE;
    int result = connection->http == NULL ? 0 : nghttp3_conn_shutdown_stream_read(connection->http, id);
    if (result != 0)
        return http3_failed(connection, result);
    if (ngtcp2_is_bidi_stream(id) && (stream == NULL || !stream->has_ended)) {
        if (stream != NULL)
            http_lose_stream(stream);
        ngtcp2_conn_shutdown_stream_write(quic, 0, id, HTTP3_REQUEST_CANCELLED);
    }
    return 0;
}

static int on_stream_window(ngtcp2_conn *quic, int64_t id, uint64_t most, void *data, void *stream_data)
{
    http3_connection *connection = data;
    (void)quic, (void)most, (void)stream_data;
    int result = connection->http == NULL ? 0 : nghttp3_conn_unblock_stream(connection->http, id);
    return result == 0 ? 0 : http3_failed(connection, result);
}

static int on_more_streams(ngtcp2_conn *quic, uint64_t most, void *data)
{
    http3_connection *connection = data;
    (void)quic;
    if (connection->http != NULL)
        nghttp3_conn_set_max_client_streams_bidi(connection->http, most);
    return 0;
}

static void fill_random(uint8_t *bytes, size_t length, const ngtcp2_rand_ctx *context)
{
    (void)context;
    (void)gnutls_rnd(GNUTLS_RND_NONCE, bytes, length);
}

/* Makes a connection ID that leads to this endpoint. */
static int make_id(const http3_endpoint *endpoint, ngtcp2_cid *id)
{
    uint16_t endpoint_id = endpoint->settings.endpoint_id;
    id->datalen = HTTP3_ID_LENGTH;
    id->data[0] = (uint8_t)(endpoint_id >> 8);
    id->data[1] = (uint8_t)endpoint_id;
    return http3_random(id->data + 2, RANDOM_LENGTH);
}

static int on_new_id(ngtcp2_conn *quic, ngtcp2_cid *id, uint8_t *token, size_t length, void *data)
{
    http3_connection *connection = data;
    const http3_endpoint *endpoint = connection->endpoint;
    (void)quic, (void)length;
    return make_id(endpoint, id) == 0 &&
                   ngtcp2_crypto_generate_stateless_reset_token(token, endpoint->settings.secret, HTTP3_SECRET_LENGTH,
                                                                id) == 0 &&
                   http3_add_id(connection, id->data, id->datalen) == 0
               ? 0
               : NGTCP2_ERR_CALLBACK_FAILURE;
}

static int on_id_retired(ngtcp2_conn *quic, const ngtcp2_cid *id, void *data)
{
    (void)quic;
    http3_remove_id(data, id->data, id->datalen);
    return 0;
}

/* After the handshake a client has nothing to say in TLS (RFC 9001, section 4.4 and 6). */
static int on_crypto(ngtcp2_conn *quic, ngtcp2_encryption_level level, uint64_t offset, const uint8_t *bytes,
                     size_t length, void *data)
{
    http3_connection *connection = data;
    if (connection->tls != NULL && connection->takes_early)
        http3_early_protect(&connection->endpoint->early, connection->tls, connection->endpoint->engine.now);
    if (connection->tls != NULL)
        return ngtcp2_crypto_recv_crypto_data_cb(quic, level, offset, bytes, length, data);
    ngtcp2_conn_set_tls_alert(quic, GNUTLS_A_UNEXPECTED_MESSAGE);
    return NGTCP2_ERR_CRYPTO;
}

static int on_key(ngtcp2_conn *quic, ngtcp2_encryption_level level, void *data)
{
    (void)quic;
    return level == NGTCP2_ENCRYPTION_LEVEL_1RTT ? http3_begin_http(data) : 0;
}

/* With the token, the client need not prove its address when it comes back (RFC 9000, section 8.1.3). */
static void send_token(http3_connection *connection, const ngtcp2_path *path)
{
    uint8_t token[NGTCP2_CRYPTO_MAX_REGULAR_TOKENLEN];
    const http3_endpoint *endpoint = connection->endpoint;
    ngtcp2_ssize length =
        ngtcp2_crypto_generate_regular_token(token, endpoint->settings.secret, HTTP3_SECRET_LENGTH, path->remote.addr,
                                             path->remote.addrlen, endpoint->engine.now);
    if (length > 0)
        (void)ngtcp2_conn_submit_new_token(connection->quic, token, (size_t)length);
}

static int on_handshake(ngtcp2_conn *quic, void *data)
{
    http3_connection *connection = data;
    http3_endpoint *endpoint = connection->endpoint;
    connection->is_established = 1;
    connection->active_at = endpoint->engine.now;
    endpoint->port->handshake_count--;
    endpoint->counts.connections++;
    http3_tell_open(connection);
    http_stream *held;
    while ((held = http_take_listed(&connection->held)) != NULL)
        http3_make_ready(held);
    send_token(connection, ngtcp2_conn_get_path(quic));
    if (endpoint->is_ending)
        http3_announce(connection, endpoint->is_last ? HTTP_END_LAST : HTTP_END_NOTICE);
    return 0;
}

static int on_path(ngtcp2_conn *quic, uint32_t flags, const ngtcp2_path *path, const ngtcp2_path *before,
                   ngtcp2_path_validation_result result, void *data)
{
    (void)quic, (void)before;
    if (result == NGTCP2_PATH_VALIDATION_RESULT_SUCCESS && (flags & NGTCP2_PATH_VALIDATION_FLAG_NEW_TOKEN))
        send_token(data, path);
    return 0;
}

static const ngtcp2_callbacks quic_callbacks = {
    .recv_client_initial = ngtcp2_crypto_recv_client_initial_cb,
    .recv_crypto_data = on_crypto,
    .handshake_completed = on_handshake,
    .encrypt = ngtcp2_crypto_encrypt_cb,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .recv_stream_data = on_stream_data,
    .acked_stream_data_offset = on_acknowledged,
    .stream_close = on_stream_close,
    .rand = fill_random,
    .get_new_connection_id = on_new_id,
    .remove_connection_id = on_id_retired,
    .update_key = ngtcp2_crypto_update_key_cb,
    .path_validation = on_path,
    .stream_reset = on_stream_reset,
    .extend_max_remote_streams_bidi = on_more_streams,
    .extend_max_stream_data = on_stream_window,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
    .recv_tx_key = on_key,
};

/* ------------------------------------------------------------------------------------------------------------------
 * The beginning */

static ngtcp2_conn *connection_of(ngtcp2_crypto_conn_ref *reference)
{
    return ((http3_connection *)reference->user_data)->quic;
}

static int open_quic(http3_connection *connection, const ngtcp2_path *path, const ngtcp2_pkt_hd *head,
                     const ngtcp2_cid *original, ngtcp2_token_type token_type, uint64_t now)
{
    http3_endpoint *endpoint = connection->endpoint;
    const http3_settings *limits = &endpoint->settings;
    /* Those after the first one are for tunnels, and the last one for larger packets than those of Ethernet. */
    const uint16_t probes[] = {ORDINARY_DATAGRAM, 1406, 1342, 1232, (uint16_t)limits->datagram_max};
    ngtcp2_cid id;
    ngtcp2_settings settings;
    ngtcp2_transport_params parameters;
    ngtcp2_settings_default(&settings);
    settings.initial_ts = now;
    settings.cc_algo = limits->congestion == HTTP3_CUBIC ? NGTCP2_CC_ALGO_CUBIC : NGTCP2_CC_ALGO_BBR;
    settings.token = head->token;
    settings.tokenlen = head->tokenlen;
    settings.token_type = token_type;
    settings.max_window = limits->common.window_max;
    settings.max_stream_window = limits->common.window_max / 2;
    settings.handshake_timeout = limits->handshake_ms == 0 ? UINT64_MAX : limits->handshake_ms * HTTP3_MILLISECOND;
    settings.max_tx_udp_payload_size = limits->datagram_max;
    if (limits->datagram_max > ORDINARY_DATAGRAM) {
        settings.pmtud_probes = probes;
        settings.pmtud_probeslen = sizeof probes / sizeof *probes;
    }
    settings.no_pmtud = limits->datagram_max <= NGTCP2_MAX_UDP_PAYLOAD_SIZE;
#if NGTCP2_VERSION_NUM >= 0x010f00 /* 1.15 */
    /* It counts useless frames, also those of honest clients: windows of streams of which all was sent. This engine's
     * limit (frames_max) allows them to clients that take what they ask for. */
    settings.glitch_ratelim_burst = UINT32_MAX;
    settings.glitch_ratelim_rate = UINT32_MAX;
#endif
    ngtcp2_transport_params_default(&parameters);
    parameters.initial_max_stream_data_bidi_remote = limits->common.stream_window;
    parameters.initial_max_stream_data_uni = UNI_STREAM_WINDOW;
    parameters.initial_max_data = limits->common.connection_window;
    parameters.initial_max_streams_bidi = limits->common.streams_max;
    parameters.initial_max_streams_uni = UNI_STREAMS;
    parameters.max_idle_timeout = limits->idle_ms * HTTP3_MILLISECOND;
    parameters.active_connection_id_limit = CLIENT_IDS;
    parameters.grease_quic_bit = 1;
    parameters.original_dcid = original != NULL ? *original : head->dcid;
    parameters.original_dcid_present = 1;
    if (original != NULL) {
        parameters.retry_scid = head->dcid;
        parameters.retry_scid_present = 1;
    }
    parameters.stateless_reset_token_present = 1;
    ngtcp2_conn *quic; /* without memory ngtcp2 leaves a pointer to what it has freed */
    if (make_id(endpoint, &id) != 0 ||
        ngtcp2_crypto_generate_stateless_reset_token(parameters.stateless_reset_token, limits->secret,
                                                     HTTP3_SECRET_LENGTH, &id) != 0 ||
        ngtcp2_conn_server_new(&quic, &head->scid, &id, path, head->version, &quic_callbacks, &settings, &parameters,
                               &connection->quic_memory, connection) != 0)
        return -1;
    connection->quic = quic;
    connection->credentials = http3_credentials_share(endpoint->credentials);
    /* Without a token of an earlier connection, the sender's address may be a lie. Then only the tickets are for
       0-RTT. */
    if (endpoint->settings.early)
        http3_early_note(&endpoint->early, now);
    connection->takes_early = endpoint->settings.early && token_type == NGTCP2_TOKEN_TYPE_NEW_TOKEN;
    connection->tls =
        http3_new_session(connection->credentials, endpoint->ticket_key,
                          endpoint->settings.early ? HTTP3_EARLY_DATA : HTTP3_NO_EARLY_DATA, &connection->reference);
    if (connection->tls == NULL)
        return -1;
    ngtcp2_conn_set_tls_native_handle(connection->quic, connection->tls);
    return http3_add_id(connection, id.data, id.datalen) == 0 &&
                   http3_add_id(connection, head->dcid.data, head->dcid.datalen) == 0
               ? 0
               : -1;
}

http3_connection *http3_new_connection(http3_endpoint *endpoint, const ngtcp2_path *path, const ngtcp2_pkt_hd *head,
                                       const ngtcp2_cid *original, ngtcp2_token_type token_type, uint64_t now)
{
    http3_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->endpoint = endpoint;
    http3_memory_begin(&connection->memory, &endpoint->cells);
    connection->number = ++endpoint->next_number;
    connection->reference = (ngtcp2_crypto_conn_ref){.get_conn = connection_of, .user_data = connection};
    http3_begin_memory(connection);
    connection->active_at = now;
    http_conduct_begin(&connection->streams.conduct, &endpoint->settings.common.allowances, now);
    connection->last_at = UINT64_MAX;
    http3_copy_address(&connection->remote, &path->remote);
    http3_copy_address(&connection->local, &path->local);
    connection->latest = connection->remote;
    ngtcp2_ccerr_default(&connection->error);
    if (http3_enter_heap(connection, UINT64_MAX) != 0) {
        http3_memory_end(&connection->memory, &endpoint->cells);
        free(connection);
        return NULL;
    }
    connection->next = endpoint->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    endpoint->connections = connection;
    endpoint->open_count++;
    endpoint->port->open_count++;
    endpoint->port->handshake_count++;
    if (open_quic(connection, path, head, original, token_type, now) != 0) {
        http3_drop_connection(connection);
        return NULL;
    }
    return connection;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The end */

static void end_tls(http3_connection *connection)
{
    if (connection->tls != NULL)
        gnutls_deinit(connection->tls);
    http3_credentials_free(connection->credentials);
    connection->tls = NULL;
    connection->credentials = NULL;
}

/* Gives the libraries' memory back, and ends all streams. */
static void end_libraries(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    http3_wake(connection);
    nghttp3_conn_del(connection->http);
    ngtcp2_conn_del(connection->quic);
    end_tls(connection);
    http3_memory_end(&connection->memory, &endpoint->cells);
    connection->http = NULL;
    connection->quic = NULL;
    connection->writing = NULL;
    while (connection->streams.first != NULL)
        http3_orphan_stream(connection->streams.first);
    endpoint->open_count--;
    endpoint->port->open_count--;
    if (connection->is_told)
        http3_push_change(connection, HTTP3_ENDED);
    if (!connection->is_established)
        endpoint->port->handshake_count--;
}

void http3_drop_connection(http3_connection *connection)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (connection->phase == HTTP3_OPEN)
        end_libraries(connection);
    else
        endpoint->ending_count--;
    http3_remove_ids(connection);
    http3_leave_pending(connection);
    http3_leave_heap(connection);
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        endpoint->connections = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    http_free(connection->close_packet);
    free(connection);
}

static void enter_phase(http3_connection *connection, http3_phase phase, uint64_t now)
{
    http3_endpoint *endpoint = connection->endpoint;
    uint64_t patience = 3 * ngtcp2_conn_get_pto(connection->quic);
    end_libraries(connection);
    connection->phase = phase;
    endpoint->ending_count++;
    http3_set_expiry(connection, endpoint->ending_count > ENDING_MAX ? now : now + patience);
}

/* Makes the CONNECTION_CLOSE packet. Returns whether there is one. */
static int make_close_packet(http3_connection *connection, int result, uint64_t now)
{
    uint8_t packet[NGTCP2_MAX_UDP_PAYLOAD_SIZE];
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info;
    if (!connection->has_error && result == NGTCP2_ERR_CRYPTO)
        ngtcp2_ccerr_set_tls_alert(&connection->error, ngtcp2_conn_get_tls_alert(connection->quic), NULL, 0);
    else if (!connection->has_error)
        ngtcp2_ccerr_set_liberr(&connection->error, result, NULL, 0);
    ngtcp2_path_storage_zero(&path);
    ngtcp2_ssize length = ngtcp2_conn_write_connection_close(connection->quic, &path.path, &info, packet, sizeof packet,
                                                             &connection->error, now);
    if (length <= 0)
        return 0;
    http3_copy_address(&connection->remote, &path.path.remote);
    http3_copy_address(&connection->local, &path.path.local);
    connection->close_packet = http_alloc((size_t)length);
    if (connection->close_packet == NULL)
        return 0;
    memcpy(connection->close_packet, packet, (size_t)length);
    connection->close_length = (uint32_t)length;
    return 1;
}

void http3_end_connection(http3_connection *connection, int result, uint64_t now)
{
    http3_endpoint *endpoint = connection->endpoint;
    if (connection->phase != HTTP3_OPEN)
        return;
    http3_wake(connection);
    http3_begin_end(connection);
    switch (result) {
    case NGTCP2_ERR_IDLE_CLOSE:
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
    case NGTCP2_ERR_DROP_CONN:
        http3_drop_connection(connection);
        return;
    case NGTCP2_ERR_DRAINING:
        enter_phase(connection, HTTP3_DRAINING, now);
        return;
    default:
        break;
    }
    if (!connection->has_error || connection->error.error_code != HTTP3_NO_ERROR)
        endpoint->counts.violations++;
    if (!make_close_packet(connection, result, now)) {
        http3_drop_connection(connection);
        return;
    }
    enter_phase(connection, HTTP3_CLOSING, now);
    connection->close_is_due = 1;
    connection->close_next = 1;
    http3_make_pending(connection);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Input */

/* The CONNECTION_CLOSE is repeated for the 1st, 2nd, 4th, 8th ... packet that arrives. */
static void answer_late_packet(http3_connection *connection)
{
    if (connection->phase != HTTP3_CLOSING || ++connection->close_received < connection->close_next)
        return;
    connection->close_next *= 2;
    connection->close_is_due = 1;
    http3_make_pending(connection);
}

/* How long http3_output.c looks whether a client has confirmed another address. */
#define LOOK_TIME (10 * HTTP3_SECOND)

static void note_address(http3_connection *connection, const ngtcp2_addr *remote, uint64_t now)
{
    if (http3_is_address(remote->addr, (uint32_t)remote->addrlen, &connection->latest))
        return;
    http3_copy_address(&connection->latest, remote);
    connection->looks_until = now + LOOK_TIME;
}

/* Tells ngtcp2 when packets were sent, so that it sets the time for the next ones. That is when it wants to be called
 * again, even if there are no next ones. So it hears of them just before its next call: until then it wants none for
 * that. */
void http3_note_sent(http3_connection *connection)
{
    if (connection->sent_at == 0)
        return;
    ngtcp2_conn_update_pkt_tx_time(connection->quic, connection->sent_at);
    connection->sent_at = 0;
}

int http3_read_packet(http3_connection *connection, const ngtcp2_path *path, uint32_t ecn, const uint8_t *bytes,
                      size_t length, uint64_t now)
{
    ngtcp2_pkt_info info = {.ecn = (uint8_t)(ecn & 3)};
    if (connection->phase != HTTP3_OPEN) {
        answer_late_packet(connection);
        return 0;
    }
    http3_wake(connection);
    http3_note_sent(connection);
    connection->heard_at = now;
    int result = 0;
    if (!http3_is_useless(connection, HTTP3_PACKET_FRAMES))
        result = ngtcp2_conn_read_pkt(connection->quic, path, &info, bytes, length, now);
    note_address(connection, &path->remote, now);
    if (result == NGTCP2_ERR_RETRY) {
        http3_drop_connection(connection);
        return result;
    }
    http3_begin_end(connection);
    if (result != 0 || connection->has_error) {
        http3_end_connection(connection, result, now);
        return 0;
    }
    if (connection->is_established && connection->tls != NULL) {
        /* The handshake is over, and session tickets are with ngtcp2: the session is of no more use, and has much
           memory. */
        end_tls(connection);
        ngtcp2_conn_set_tls_native_handle(connection->quic, NULL);
    }
    http_note_windows(&connection->streams);
    http3_make_pending(connection);
    return 0;
}

void http3_expire(http3_connection *connection, uint64_t now)
{
    if (connection->phase != HTTP3_OPEN) {
        http3_drop_connection(connection);
        return;
    }
    http3_wake(connection);
    http3_note_sent(connection);
    int result = ngtcp2_conn_handle_expiry(connection->quic, now);
    if (result != 0) {
        http3_end_connection(connection, result, now);
        return;
    }
    if (connection->last_at <= now) {
        connection->last_at = UINT64_MAX;
        http3_announce(connection, HTTP_END_LAST);
    }
    http3_set_expiry(connection, UINT64_MAX); /* until it has written */
    http3_make_pending(connection);
}

int http3_rest(http3_connection *connection, uint64_t now, uint64_t quiet)
{
    int is_busy = connection->streams.first != NULL || connection->is_pending || connection->tls != NULL ||
                  connection->has_error || connection->expiry < now + quiet || now < connection->heard_at + quiet;
    return connection->phase == HTTP3_OPEN && connection->is_established && !is_busy &&
           http3_memory_pack(&connection->memory);
}
