/* client.c - a client of HTTP/3, for the tests. */
#include "client.h"

#include <arpa/inet.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

const client_settings ordinary = {.stream_window = 262144,
                                  .connection_window = 1048576,
                                  .version = NGTCP2_PROTO_VER_V1,
                                  .protocol = "h3",
                                  .server_name = "localhost"};

static struct sockaddr_in client_address(const client *c)
{
    /* The client does not know about a NAT: its own address stays the same. */
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(c->known_port), .sin_addr.s_addr = htonl(0x0a000000u + c->number)};
}

static struct sockaddr_in server_address(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(443), .sin_addr.s_addr = htonl(0x0a00fffe)};
}

/* ------------------------------------------------------------------------------------------------------------------
 * Responses */

static int on_http_data(nghttp3_conn *http, int64_t id, const uint8_t *bytes, size_t length, void *data,
                        void *stream_data)
{
    client *c = data;
    exchange *e = stream_data;
    (void)http;
    for (size_t i = 0; i < length; i++) {
        uint8_t right = e->upload != NULL ? e->upload[e->received + i] : pattern(e->received + i);
        if (e->received + i >= e->expected || bytes[i] != right)
            FAIL("byte %llu of stream %lld is wrong", (unsigned long long)(e->received + i), (long long)id);
    }
    e->received += length;
    if (!c->settings.reads_slowly) {
        ngtcp2_conn_extend_max_stream_offset(c->quic, id, length);
        ngtcp2_conn_extend_max_offset(c->quic, length);
    }
    return 0;
}

static int on_http_deferred(nghttp3_conn *http, int64_t id, size_t length, void *data, void *stream_data)
{
    client *c = data;
    (void)http, (void)stream_data;
    ngtcp2_conn_extend_max_stream_offset(c->quic, id, length);
    ngtcp2_conn_extend_max_offset(c->quic, length);
    return 0;
}

static int on_http_header(nghttp3_conn *http, int64_t id, int32_t token, nghttp3_rcbuf *name, nghttp3_rcbuf *value,
                          uint8_t flags, void *data, void *stream_data)
{
    exchange *e = stream_data;
    (void)http, (void)id, (void)name, (void)flags, (void)data;
    if (token == NGHTTP3_QPACK_TOKEN__STATUS) {
        nghttp3_vec text = nghttp3_rcbuf_get_buf(value);
        int status = (text.base[0] - '0') * 100 + (text.base[1] - '0') * 10 + text.base[2] - '0';
        if (status < 200)
            e->interim++;
        else
            e->status = status;
    }
    return 0;
}

static int on_http_trailer(nghttp3_conn *http, int64_t id, int32_t token, nghttp3_rcbuf *name, nghttp3_rcbuf *value,
                           uint8_t flags, void *data, void *stream_data)
{
    exchange *e = stream_data;
    (void)http, (void)id, (void)token, (void)name, (void)value, (void)flags, (void)data;
    e->trailers++;
    return 0;
}

static int on_http_end(nghttp3_conn *http, int64_t id, void *data, void *stream_data)
{
    exchange *e = stream_data;
    (void)http, (void)id, (void)data;
    e->is_complete = 1;
    return 0;
}

static int on_http_close(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    exchange *e = stream_data;
    (void)http, (void)id, (void)data;
    if (e != NULL) {
        e->is_closed = 1;
        e->code = code;
    }
    return 0;
}

static int on_http_stop(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    client *c = data;
    (void)http, (void)stream_data;
    return ngtcp2_conn_shutdown_stream_read(c->quic, 0, id, code) == 0 ? 0 : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static int on_http_reset(nghttp3_conn *http, int64_t id, uint64_t code, void *data, void *stream_data)
{
    client *c = data;
    (void)http, (void)stream_data;
    return ngtcp2_conn_shutdown_stream_write(c->quic, 0, id, code) == 0 ? 0 : NGHTTP3_ERR_CALLBACK_FAILURE;
}

static int on_goaway(nghttp3_conn *http, int64_t id, void *data)
{
    client *c = data;
    (void)http;
    c->goaways++;
    c->goaway_id = id;
    return 0;
}

static const nghttp3_callbacks http_callbacks = {
    .stream_close = on_http_close,
    .recv_data = on_http_data,
    .deferred_consume = on_http_deferred,
    .recv_header = on_http_header,
    .recv_trailer = on_http_trailer,
    .end_stream = on_http_end,
    .stop_sending = on_http_stop,
    .reset_stream = on_http_reset,
    .shutdown = on_goaway,
};

static int begin_http(client *c)
{
    int64_t control, encoder, decoder;
    nghttp3_settings settings;
    if (c->http != NULL || c->settings.without_http)
        return 0;
    nghttp3_settings_default(&settings);
    settings.qpack_max_dtable_capacity = 4096;
    settings.qpack_encoder_max_dtable_capacity = 4096;
    settings.qpack_blocked_streams = 16;
    CHECK_EQ(nghttp3_conn_client_new(&c->http, &http_callbacks, &settings, nghttp3_mem_default(), c), 0);
    CHECK_EQ(ngtcp2_conn_open_uni_stream(c->quic, &control, NULL), 0);
    CHECK_EQ(ngtcp2_conn_open_uni_stream(c->quic, &encoder, NULL), 0);
    CHECK_EQ(ngtcp2_conn_open_uni_stream(c->quic, &decoder, NULL), 0);
    CHECK_EQ(nghttp3_conn_bind_control_stream(c->http, control), 0);
    CHECK_EQ(nghttp3_conn_bind_qpack_streams(c->http, encoder, decoder), 0);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------------
 * QUIC */

static int on_key(ngtcp2_conn *quic, ngtcp2_encryption_level level, void *data)
{
    (void)quic;
    return level == NGTCP2_ENCRYPTION_LEVEL_1RTT || level == NGTCP2_ENCRYPTION_LEVEL_0RTT ? begin_http(data) : 0;
}

/* A ticket has come. */
static int on_ticket(gnutls_session_t tls, unsigned type, unsigned when, unsigned incoming,
                     const gnutls_datum_t *message)
{
    const ngtcp2_crypto_conn_ref *reference = gnutls_session_get_ptr(tls);
    client *c = reference->user_data;
    (void)type, (void)when, (void)incoming, (void)message;
    gnutls_free(c->session.data);
    return gnutls_session_get_data2(tls, &c->session);
}

/* All that was sent in 0-RTT is forgotten, and sent again. */
static int on_early_rejected(ngtcp2_conn *quic, void *data)
{
    client *c = data;
    (void)quic;
    c->was_rejected = 1;
    nghttp3_conn_del(c->http);
    c->http = NULL;
    for (uint32_t i = 0; i < c->exchange_count; i++)
        c->exchanges[i]->is_started = 0, c->exchanges[i]->given = 0;
    return begin_http(c);
}

static int on_handshake(ngtcp2_conn *quic, void *data)
{
    client *c = data;
    unsigned count = 0;
    c->is_established = 1;
    if (c->is_early && !(gnutls_session_get_flags(c->tls) & GNUTLS_SFLAGS_EARLY_DATA))
        CHECK_EQ(ngtcp2_conn_tls_early_data_rejected(quic), 0);
    if (c->settings.remembers) {
        ngtcp2_ssize length = ngtcp2_conn_encode_0rtt_transport_params(quic, c->parameters, sizeof c->parameters);
        CHECK(length > 0);
        c->parameters_length = (size_t)length;
    }
    const gnutls_datum_t *list = gnutls_certificate_get_peers(c->tls, &count);
    gnutls_x509_crt_t certificate;
    if (count > 0 && gnutls_x509_crt_init(&certificate) == 0) {
        size_t size = sizeof c->peer_name;
        if (gnutls_x509_crt_import(certificate, &list[0], GNUTLS_X509_FMT_DER) == 0)
            (void)gnutls_x509_crt_get_dn(certificate, c->peer_name, &size);
        gnutls_x509_crt_deinit(certificate);
    }
    return 0;
}

static int on_confirmed(ngtcp2_conn *quic, void *data)
{
    (void)quic;
    ((client *)data)->is_confirmed = 1;
    return 0;
}

static int on_stream_data(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t offset, const uint8_t *bytes,
                          size_t length, void *data, void *stream_data)
{
    client *c = data;
    (void)quic, (void)offset, (void)stream_data;
    if (c->http == NULL)
        return 0;
    nghttp3_ssize used =
        nghttp3_conn_read_stream(c->http, id, bytes, length, (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0);
    if (used < 0)
        FAIL("the server's bytes are refused: %s", nghttp3_strerror((int)used));
    ngtcp2_conn_extend_max_stream_offset(c->quic, id, (uint64_t)used);
    ngtcp2_conn_extend_max_offset(c->quic, (uint64_t)used);
    return 0;
}

static int on_acknowledged(ngtcp2_conn *quic, int64_t id, uint64_t offset, uint64_t length, void *data,
                           void *stream_data)
{
    client *c = data;
    (void)quic, (void)offset, (void)stream_data;
    return c->http == NULL || nghttp3_conn_add_ack_offset(c->http, id, length) == 0 ? 0 : NGTCP2_ERR_CALLBACK_FAILURE;
}

/* libnghttp3 1.9 and later lose a response that still waits for the QPACK table when its stream is closed. So they hear
   of that later. */
static int on_stream_close(ngtcp2_conn *quic, uint32_t flags, int64_t id, uint64_t code, void *data, void *stream_data)
{
    client *c = data;
    exchange *e = stream_data;
    (void)quic;
    if (!(flags & NGTCP2_STREAM_CLOSE_FLAG_APP_ERROR_CODE_SET))
        code = HTTP3_NO_ERROR;
    if (e != NULL && code == HTTP3_NO_ERROR && !e->is_complete)
        e->is_late = 1;
    else if (c->http != NULL)
        (void)nghttp3_conn_close_stream(c->http, id, code);
    return 0;
}

static void close_late(client *c)
{
    for (uint32_t i = 0; i < c->exchange_count; i++) {
        exchange *e = c->exchanges[i];
        if (!e->is_late || !e->is_complete)
            continue;
        e->is_late = 0;
        (void)nghttp3_conn_close_stream(c->http, e->id, HTTP3_NO_ERROR);
    }
}

static int on_stream_reset(ngtcp2_conn *quic, int64_t id, uint64_t size, uint64_t code, void *data, void *stream_data)
{
    client *c = data;
    (void)quic, (void)size, (void)stream_data;
    c->resets++;
    c->reset_code = code;
    return c->http == NULL || nghttp3_conn_shutdown_stream_read(c->http, id) == 0 ? 0 : NGTCP2_ERR_CALLBACK_FAILURE;
}

static int on_window(ngtcp2_conn *quic, int64_t id, uint64_t most, void *data, void *stream_data)
{
    client *c = data;
    (void)quic, (void)most, (void)stream_data;
    return c->http == NULL || nghttp3_conn_unblock_stream(c->http, id) == 0 ? 0 : NGTCP2_ERR_CALLBACK_FAILURE;
}

static void fill_random(uint8_t *bytes, size_t length, const ngtcp2_rand_ctx *context)
{
    (void)context;
    (void)gnutls_rnd(GNUTLS_RND_NONCE, bytes, length);
}

static int on_new_id(ngtcp2_conn *quic, ngtcp2_cid *id, uint8_t *token, size_t length, void *data)
{
    (void)quic, (void)data;
    fill_random(id->data, length, NULL);
    id->datalen = length;
    fill_random(token, NGTCP2_STATELESS_RESET_TOKENLEN, NULL);
    return 0;
}

static int on_reset(ngtcp2_conn *quic, const ngtcp2_pkt_stateless_reset *reset, void *data)
{
    (void)quic, (void)reset;
    ((client *)data)->was_reset = 1;
    return 0;
}

static int on_token(ngtcp2_conn *quic, const uint8_t *token, size_t length, void *data)
{
    client *c = data;
    (void)quic;
    CHECK(length <= sizeof c->token);
    memcpy(c->token, token, length);
    c->token_length = length;
    return 0;
}

static int on_versions(ngtcp2_conn *quic, const ngtcp2_pkt_hd *head, const uint32_t *versions, size_t count, void *data)
{
    (void)quic, (void)head, (void)versions;
    ((client *)data)->versions_offered = (uint32_t)count;
    return 0;
}

static int on_retry(ngtcp2_conn *quic, const ngtcp2_pkt_hd *head, void *data)
{
    ((client *)data)->retries++;
    return ngtcp2_crypto_recv_retry_cb(quic, head, data);
}

static const ngtcp2_callbacks quic_callbacks = {
    .client_initial = ngtcp2_crypto_client_initial_cb,
    .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
    .handshake_completed = on_handshake,
    .recv_version_negotiation = on_versions,
    .encrypt = ngtcp2_crypto_encrypt_cb,
    .decrypt = ngtcp2_crypto_decrypt_cb,
    .hp_mask = ngtcp2_crypto_hp_mask_cb,
    .recv_stream_data = on_stream_data,
    .acked_stream_data_offset = on_acknowledged,
    .stream_close = on_stream_close,
    .recv_stateless_reset = on_reset,
    .recv_retry = on_retry,
    .rand = fill_random,
    .get_new_connection_id = on_new_id,
    .update_key = ngtcp2_crypto_update_key_cb,
    .stream_reset = on_stream_reset,
    .extend_max_stream_data = on_window,
    .handshake_confirmed = on_confirmed,
    .recv_new_token = on_token,
    .delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb,
    .delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb,
    .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
    .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
    .recv_rx_key = NULL,
    .recv_tx_key = on_key,
    .tls_early_data_rejected = on_early_rejected,
};

static ngtcp2_conn *connection_of(ngtcp2_crypto_conn_ref *reference)
{
    return ((client *)reference->user_data)->quic;
}

static void open_tls(client *c)
{
    const client_settings *settings = &c->settings;
    gnutls_datum_t protocol = {(uint8_t *)settings->protocol, (unsigned)strlen(settings->protocol)};
    CHECK_EQ(gnutls_certificate_allocate_credentials(&c->credentials), 0);
    int is_for_early = settings->remembers || settings->earlier != NULL;
    CHECK_EQ(gnutls_init(&c->tls,
                         GNUTLS_CLIENT | (is_for_early ? GNUTLS_ENABLE_EARLY_DATA | GNUTLS_NO_END_OF_EARLY_DATA : 0)),
             0);
    if (settings->remembers)
        gnutls_handshake_set_hook_function(c->tls, GNUTLS_HANDSHAKE_NEW_SESSION_TICKET, GNUTLS_HOOK_POST, on_ticket);
    CHECK_EQ(ngtcp2_crypto_gnutls_configure_client_session(c->tls), 0);
    CHECK_EQ(gnutls_priority_set_direct(c->tls, "%DISABLE_TLS13_COMPAT_MODE:NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL), 0);
    gnutls_session_set_ptr(c->tls, &c->reference);
    CHECK_EQ(gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, c->credentials), 0);
    CHECK_EQ(gnutls_alpn_set_protocols(c->tls, &protocol, 1, 0), 0);
    CHECK_EQ(gnutls_server_name_set(c->tls, GNUTLS_NAME_DNS, settings->server_name, strlen(settings->server_name)), 0);
}

client *new_client(world *w, const client_settings *settings)
{
    client *c = calloc(1, sizeof *c);
    ngtcp2_settings quic;
    ngtcp2_transport_params parameters;
    ngtcp2_cid target = {.datalen = 8 + random_below(w, 13)}, own = {.datalen = 8};
    CHECK(c != NULL && w->client_count < CLIENTS_MAX);
    c->world = w;
    c->settings = *settings;
    c->number = settings->number != 0 ? settings->number : (uint16_t)(w->client_count + 1);
    c->port = c->known_port = 1000;
    c->reference = (ngtcp2_crypto_conn_ref){.get_conn = connection_of, .user_data = c};
    ngtcp2_settings_default(&quic);
    quic.initial_ts = w->now;
    quic.token = settings->token;
    quic.tokenlen = settings->token_length;
    quic.max_window = 8 * settings->connection_window;
    quic.max_stream_window = 8 * settings->stream_window;
    if (settings->version != NGTCP2_PROTO_VER_V1) {
        quic.available_versions = &c->settings.version;
        quic.available_versionslen = 1;
        quic.preferred_versions = &c->settings.version;
        quic.preferred_versionslen = 1;
    }
    ngtcp2_transport_params_default(&parameters);
    parameters.initial_max_stream_data_bidi_local = settings->stream_window;
    parameters.initial_max_stream_data_uni = 65536;
    parameters.initial_max_data = settings->connection_window;
    parameters.initial_max_streams_uni = 8;
    parameters.max_idle_timeout = 60 * SECOND;
    fill_random(target.data, target.datalen, NULL);
    fill_random(own.data, own.datalen, NULL);
    struct sockaddr_in local = client_address(c), remote = server_address();
    ngtcp2_path path = {.local = {(ngtcp2_sockaddr *)&local, sizeof local},
                        .remote = {(ngtcp2_sockaddr *)&remote, sizeof remote}};
    CHECK_EQ(ngtcp2_conn_client_new(&c->quic, &target, &own, &path, settings->version, &quic_callbacks, &quic,
                                    &parameters, NULL, c),
             0);
    open_tls(c);
    ngtcp2_conn_set_tls_native_handle(c->quic, c->tls);
    if (settings->earlier != NULL) {
        const client *earlier = settings->earlier;
        c->is_early = 1;
        CHECK_EQ(gnutls_session_set_data(c->tls, earlier->session.data, earlier->session.size), 0);
        CHECK_EQ(
            ngtcp2_conn_decode_and_set_0rtt_transport_params(c->quic, earlier->parameters, earlier->parameters_length),
            0);
    }
    w->clients[w->client_count++] = c;
    return c;
}

void free_client(client *c)
{
    nghttp3_conn_del(c->http);
    ngtcp2_conn_del(c->quic);
    gnutls_deinit(c->tls);
    gnutls_certificate_free_credentials(c->credentials);
    gnutls_free(c->session.data);
    for (uint32_t i = 0; i < c->exchange_count; i++) {
        free(c->exchanges[i]->upload);
        free(c->exchanges[i]);
    }
    free(c);
}

static void end(client *c, int result)
{
    c->is_over = 1;
    c->result = result;
    c->error = *ngtcp2_conn_get_ccerr(c->quic);
    size_t length = c->error.reasonlen < sizeof c->reason ? c->error.reasonlen : sizeof c->reason - 1;
    if (length > 0)
        memcpy(c->reason, c->error.reason, length);
    c->reason[length] = 0;
    for (uint32_t i = 0; i < c->exchange_count; i++)
        if (!c->exchanges[i]->is_closed) {
            c->exchanges[i]->is_closed = 1;
            c->exchanges[i]->code = UINT64_MAX;
        }
}

void client_receive(client *c, uint8_t ecn, const uint8_t *bytes, size_t length)
{
    struct sockaddr_in local = client_address(c), remote = server_address();
    ngtcp2_path path = {.local = {(ngtcp2_sockaddr *)&local, sizeof local},
                        .remote = {(ngtcp2_sockaddr *)&remote, sizeof remote}};
    ngtcp2_pkt_info info = {.ecn = ecn};
    c->bytes_received += length;
    if (c->is_over || c->settings.is_mute)
        return;
    int result = ngtcp2_conn_read_pkt(c->quic, &path, &info, bytes, length, c->world->now);
    if (result != 0)
        end(c, result);
    else
        close_late(c);
}

uint64_t client_expiry(const client *c)
{
    return c->is_over || (c->settings.is_mute && c->bytes_sent > 0) ? UINT64_MAX : ngtcp2_conn_get_expiry(c->quic);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Requests */

static nghttp3_ssize read_upload(nghttp3_conn *http, int64_t id, nghttp3_vec *pieces, size_t count, uint32_t *flags,
                                 void *data, void *stream_data)
{
    exchange *e = stream_data;
    (void)http, (void)id, (void)count, (void)data;
    uint64_t length = e->upload_length - e->given;
    length = length < 50000 ? length : 50000;
    pieces[0] = (nghttp3_vec){e->upload + e->given, length};
    e->given += length;
    if (e->given == e->upload_length)
        *flags |= NGHTTP3_DATA_FLAG_EOF;
    return 1;
}

#define FIELD(name, value)                                                                \
    {                                                                                     \
        (const uint8_t *)(name), (const uint8_t *)(value), strlen(name), strlen(value), 0 \
    }

static void submit(exchange *e, const nghttp3_nv *fields, size_t count)
{
    client *c = e->client;
    nghttp3_data_reader reader = {read_upload};
    e->is_started = 1;
    CHECK_EQ(ngtcp2_conn_open_bidi_stream(c->quic, &e->id, e), 0);
    CHECK_EQ(nghttp3_conn_submit_request(c->http, e->id, fields, count, e->upload == NULL ? NULL : &reader, e), 0);
}

static exchange *new_exchange(client *c)
{
    CHECK(c->exchange_count < EXCHANGES_MAX);
    exchange *e = malloc(sizeof *e);
    CHECK(e != NULL);
    c->exchanges[c->exchange_count++] = e;
    *e = (exchange){.client = c, .id = -1};
    return e;
}

exchange *request(client *c, uint64_t download, uint64_t upload)
{
    exchange *e = new_exchange(c);
    e->expected = upload > 0 ? upload : download;
    e->upload_length = upload;
    if (upload > 0) {
        e->upload = malloc(upload);
        CHECK(e->upload != NULL);
        for (uint64_t i = 0; i < upload; i++)
            e->upload[i] = (uint8_t)(pattern(i) ^ (c->exchange_count * 37));
    }
    return e;
}

exchange *request_with(client *c, const nghttp3_nv *fields, size_t count, uint64_t expected)
{
    exchange *e = new_exchange(c);
    e->expected = expected;
    submit(e, fields, count);
    return e;
}

static void start_requests(client *c)
{
    for (uint32_t i = 0; i < c->exchange_count; i++) {
        exchange *e = c->exchanges[i];
        char path[32];
        if (e->is_started || e->is_closed || c->http == NULL || !(c->is_established || c->is_early) ||
            ngtcp2_conn_get_streams_bidi_left(c->quic) == 0 || c->goaways > 0)
            continue;
        (void)snprintf(path, sizeof path, "/%llu", (unsigned long long)e->expected);
        nghttp3_nv fields[] = {FIELD(":method", e->upload != NULL ? "POST" : "GET"), FIELD(":scheme", "https"),
                               FIELD(":authority", "localhost"), FIELD(":path", path),
                               FIELD("user-agent", "a client of the tests")};
        submit(e, fields, sizeof fields / sizeof *fields);
    }
}

void client_reset(exchange *e, uint64_t code)
{
    client *c = e->client;
    CHECK_GE(e->id, 0);
    nghttp3_conn_shutdown_stream_write(c->http, e->id);
    (void)nghttp3_conn_shutdown_stream_read(c->http, e->id);
    (void)ngtcp2_conn_shutdown_stream(c->quic, 0, e->id, code);
}

void client_stop(exchange *e, uint64_t code)
{
    client *c = e->client;
    CHECK_GE(e->id, 0);
    (void)nghttp3_conn_shutdown_stream_read(c->http, e->id);
    (void)ngtcp2_conn_shutdown_stream_read(c->quic, 0, e->id, code);
}

void client_prioritize(exchange *e, const char *priority)
{
    CHECK_EQ(
        nghttp3_conn_set_client_stream_priority(e->client->http, e->id, (const uint8_t *)priority, strlen(priority)),
        0);
}

static void send_bytes(client *c, int64_t id, const void *bytes, size_t length, uint32_t flags)
{
    uint8_t packet[1452];
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info = {0};
    ngtcp2_ssize taken;
    if (c->is_over)
        return;
    ngtcp2_path_storage_zero(&path);
    ngtcp2_ssize size = ngtcp2_conn_write_stream(c->quic, &path.path, &info, packet, sizeof packet, &taken, flags, id,
                                                 bytes, length, c->world->now);
    if (size > 0)
        send_to_server(c, info.ecn, packet, (size_t)size);
}

void send_more(client *c, int64_t id, const void *bytes, size_t length)
{
    send_bytes(c, id, bytes, length, NGTCP2_WRITE_STREAM_FLAG_NONE);
}

void send_end(client *c, int64_t id)
{
    send_bytes(c, id, NULL, 0, NGTCP2_WRITE_STREAM_FLAG_FIN);
}

int64_t send_raw(client *c, raw_kind kind, const void *bytes, size_t length)
{
    int64_t id;
    if (c->is_over || (kind == RAW_REQUEST ? ngtcp2_conn_open_bidi_stream(c->quic, &id, NULL)
                                           : ngtcp2_conn_open_uni_stream(c->quic, &id, NULL)) != 0)
        return -1;
    send_more(c, id, bytes, length);
    return id;
}

void client_close(client *c, uint64_t code)
{
    uint8_t packet[1200];
    ngtcp2_ccerr error;
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info = {0};
    ngtcp2_path_storage_zero(&path);
    ngtcp2_ccerr_default(&error);
    ngtcp2_ccerr_set_application_error(&error, code, NULL, 0);
    ngtcp2_ssize length =
        ngtcp2_conn_write_connection_close(c->quic, &path.path, &info, packet, sizeof packet, &error, c->world->now);
    if (length > 0)
        send_to_server(c, info.ecn, packet, (size_t)length);
    end(c, 0);
}

void rebind(client *c)
{
    c->port++;
}

int migrate(client *c)
{
    c->known_port = ++c->port;
    struct sockaddr_in local = client_address(c), remote = server_address();
    ngtcp2_path path = {.local = {(ngtcp2_sockaddr *)&local, sizeof local},
                        .remote = {(ngtcp2_sockaddr *)&remote, sizeof remote}};
    return ngtcp2_conn_initiate_immediate_migration(c->quic, &path, c->world->now);
}

/* Returns 0 when nothing is left to be sent now. */
static int write_one(client *c)
{
    uint8_t packet[1452];
    ngtcp2_path_storage path;
    ngtcp2_pkt_info info = {0};
    ngtcp2_path_storage_zero(&path);
    for (;;) {
        nghttp3_vec pieces[8];
        nghttp3_ssize count = 0;
        ngtcp2_ssize taken = -1;
        int64_t id = -1;
        int is_end = 0;
        if (c->http != NULL && ngtcp2_conn_get_max_data_left(c->quic) > 0) {
            count = nghttp3_conn_writev_stream(c->http, &id, &is_end, pieces, 8);
            CHECK(count >= 0);
        }
        ngtcp2_ssize length =
            ngtcp2_conn_writev_stream(c->quic, &path.path, &info, packet, sizeof packet, &taken,
                                      NGTCP2_WRITE_STREAM_FLAG_MORE | (is_end ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0), id,
                                      (const ngtcp2_vec *)pieces, (size_t)count, c->world->now);
        if (length == NGTCP2_ERR_STREAM_DATA_BLOCKED)
            nghttp3_conn_block_stream(c->http, id);
        else if (length == NGTCP2_ERR_STREAM_SHUT_WR || length == NGTCP2_ERR_STREAM_NOT_FOUND)
            nghttp3_conn_shutdown_stream_write(c->http, id);
        else if (length < 0 && length != NGTCP2_ERR_WRITE_MORE) {
            end(c, (int)length);
            return 0;
        }
        if (taken >= 0 && id >= 0)
            CHECK_EQ(nghttp3_conn_add_write_offset(c->http, id, (size_t)taken), 0);
        if (length == 0)
            return 0;
        if (length > 0) {
            send_to_server(c, info.ecn, packet, (size_t)length);
            return 1;
        }
    }
}

void client_work(client *c)
{
    if (c->is_over || (c->settings.is_mute && c->bytes_sent > 0))
        return;
    if (ngtcp2_conn_get_expiry(c->quic) <= c->world->now) {
        int result = ngtcp2_conn_handle_expiry(c->quic, c->world->now);
        if (result != 0) {
            end(c, result);
            return;
        }
    }
    start_requests(c);
    for (unsigned i = 0; i < 32 && write_one(c); i++)
        continue;
    if (!c->is_over)
        ngtcp2_conn_update_pkt_tx_time(c->quic, c->world->now);
}
