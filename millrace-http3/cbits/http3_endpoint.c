/*
 * http3_endpoint.c - an endpoint: which datagram belongs to which connection, what is answered without one, and who
 * writes when. Must not know: GHC, sockets, the clock.
 */
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "http3_internal.h"

/* No QUIC packet is shorter (RFC 9000, section 10.3). */
#define PACKET_MIN 21u

/* Answers that belong to no connection and wait to be sent, in bytes. More are not made. */
#define PACKETS_MAX 262144u

/* The rate of such answers, but for Retry packets: for all clients together. */
#define STATELESS_MAX        1000u
#define STATELESS_PER_SECOND 10000u

/* How long tokens are valid. */
#define RETRY_TIME (10 * HTTP3_SECOND)
#define TOKEN_TIME (24 * 3600 * HTTP3_SECOND)

#define RESERVED_VERSION UINT32_C(0x1a2a3a4a) /* RFC 9000, section 15: so that clients learn to ignore unknown ones */

/* ------------------------------------------------------------------------------------------------------------------
 * Notices, changes */

int64_t http3_next_notice(http3_endpoint *endpoint)
{
    return http_next_notice(&endpoint->engine);
}

int http3_next_change(http3_endpoint *endpoint, http3_change *change)
{
    http_lock(&endpoint->engine);
    int found = endpoint->changes_taken < endpoint->change_count;
    if (found)
        *change = endpoint->changes[endpoint->changes_taken++];
    if (endpoint->changes_taken == endpoint->change_count)
        endpoint->changes_taken = endpoint->change_count = 0;
    http_unlock(&endpoint->engine);
    return found;
}

uint64_t http3_flags(const http3_endpoint *endpoint)
{
    uint64_t flags = http_engine_flags(&endpoint->engine);
    if (endpoint->changes_taken < endpoint->change_count)
        flags |= HTTP3_HAS_CHANGES;
    return flags;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Settings */

int http3_settings_default(http3_settings *settings)
{
    static const char name[] = "millrace";
    *settings = (http3_settings){.common = {.streams_max = 100,
                                            .fields_max = 100,
                                            .head_max = 51200,
                                            .target_max = 16384,
                                            .stream_window = 65536,
                                            .connection_window = 1048576,
                                            .window_max = 16777216,
                                            .table_max = 4096,
                                            .skipped_max = 65536,
                                            .allowances = {.frames_max = 4000,
                                                           .frames_per_second = 500,
                                                           .resets_max = 1000,
                                                           .resets_per_second = 100},
                                            .server_name_length = sizeof name - 1},
                                 .blocked_max = 16,
                                 .connections_max = 100000,
                                 .handshakes_max = 10000,
                                 .retry_from = 500,
                                 .idle_ms = 30000,
                                 .handshake_ms = 10000,
                                 .datagram_max = 1452,
                                 .congestion = HTTP3_BBR};
    memcpy(settings->common.server_name, name, sizeof name - 1);
    return http3_random(settings->secret, sizeof settings->secret);
}

static int prepare(http3_endpoint *endpoint, const http3_settings *settings)
{
    const http_settings *common = &endpoint->settings.common; /* the engine's limits point into it */
    endpoint->settings = *settings;
    endpoint->limits = (http_head_limits){.fields_max = common->fields_max,
                                          .head_max = common->head_max,
                                          .target_max = common->target_max,
                                          .allowed = common->allowed};
    endpoint->stateless.tokens = STATELESS_MAX;
    endpoint->engine.allowances = &common->allowances;
    endpoint->engine.server = (http_server_name){common->server_name, common->server_name_length};
    endpoint->engine.head_max = common->head_max;
    endpoint->engine.skipped_max =
        common->skipped_max > common->stream_window ? common->skipped_max : common->stream_window;
    return http3_make_ticket_key(endpoint->ticket_key, settings->secret) == 0 &&
                   http3_random((uint8_t *)endpoint->hash_key, sizeof endpoint->hash_key) == 0 &&
                   http_engine_begin(&endpoint->engine, &http3_protocol) == 0
               ? 0
               : -1;
}

static void leave_port(http3_port *port)
{
    if (atomic_fetch_sub(&port->shares, 1) == 1)
        free(port);
}

/* Takes the caller's share of the port. */
static http3_endpoint *open_at(http3_port *port, const http3_settings *settings, http3_credentials *credentials)
{
    http3_endpoint *endpoint = port == NULL ? NULL : calloc(1, sizeof *endpoint);
    if (endpoint != NULL && prepare(endpoint, settings) == 0) {
        endpoint->port = port;
        endpoint->credentials = http3_credentials_share(credentials);
        return endpoint;
    }
    free(endpoint);
    if (port != NULL)
        leave_port(port);
    return NULL;
}

http3_endpoint *http3_open(const http3_settings *settings, http3_credentials *credentials)
{
    http3_port *port = calloc(1, sizeof *port);
    if (port != NULL)
        port->shares = 1;
    return open_at(port, settings, credentials);
}

http3_endpoint *http3_open_beside(http3_endpoint *first, uint16_t endpoint_id)
{
    http_lock(&first->engine);
    http3_settings settings = first->settings;
    http3_credentials *credentials = http3_credentials_share(first->credentials);
    http_unlock(&first->engine);
    settings.endpoint_id = endpoint_id;
    atomic_fetch_add(&first->port->shares, 1);
    http3_endpoint *endpoint = open_at(first->port, &settings, credentials);
    http3_credentials_free(credentials);
    return endpoint;
}

void http3_set_credentials(http3_endpoint *endpoint, http3_credentials *credentials)
{
    http_lock(&endpoint->engine);
    http3_credentials *before = endpoint->credentials;
    endpoint->credentials = http3_credentials_share(credentials);
    http_unlock(&endpoint->engine);
    http3_credentials_free(before);
}

void http3_free(http3_endpoint *endpoint)
{
    while (endpoint->connections != NULL)
        http3_drop_connection(endpoint->connections);
    http3_credentials_free(endpoint->credentials);
    leave_port(endpoint->port);
    http_building_drop(&endpoint->spare);
    http3_cells_free(&endpoint->cells);
    http3_early_close(&endpoint->early);
    http_engine_end(&endpoint->engine);
    free(endpoint->table);
    free(endpoint->heap);
    free(endpoint->changes);
    free(endpoint->packets);
    free(endpoint);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Answers without a connection */

typedef struct loose_packet {
    http3_address local, remote;
    uint32_t length;
} loose_packet;

static void copy_address(http3_address *target, const ngtcp2_addr *source)
{
    target->length = (uint32_t)source->addrlen;
    memcpy(target->bytes, source->addr, source->addrlen);
}

static void push_packet(http3_endpoint *endpoint, const ngtcp2_path *path, const uint8_t *bytes, size_t length)
{
    loose_packet packet = {.length = (uint32_t)length};
    size_t needed = endpoint->packets_length + sizeof packet + length;
    if (needed > PACKETS_MAX)
        return;
    if (needed > endpoint->packets_capacity) {
        uint8_t *larger = realloc(endpoint->packets, 2 * needed);
        if (larger == NULL)
            return;
        endpoint->packets = larger;
        endpoint->packets_capacity = (uint32_t)(2 * needed);
    }
    copy_address(&packet.local, &path->local);
    copy_address(&packet.remote, &path->remote);
    memcpy(endpoint->packets + endpoint->packets_length, &packet, sizeof packet);
    memcpy(endpoint->packets + endpoint->packets_length + sizeof packet, bytes, length);
    endpoint->packets_length = (uint32_t)needed;
}

static int is_too_often(http3_endpoint *endpoint)
{
    return http_bucket_take(&endpoint->stateless, 1, endpoint->engine.now, STATELESS_MAX, STATELESS_PER_SECOND);
}

static void answer_version(http3_endpoint *endpoint, const ngtcp2_path *path, const ngtcp2_version_cid *ids)
{
    static const uint32_t versions[] = {RESERVED_VERSION, NGTCP2_PROTO_VER_V1, NGTCP2_PROTO_VER_V2};
    uint8_t packet[600], random; /* the IDs of an unknown version may have 255 bytes each (RFC 8999, section 5.1) */
    if (is_too_often(endpoint) || http3_random(&random, 1) != 0)
        return;
    ngtcp2_ssize length =
        ngtcp2_pkt_write_version_negotiation(packet, sizeof packet, random, ids->scid, ids->scidlen, ids->dcid,
                                             ids->dcidlen, versions, sizeof versions / sizeof *versions);
    if (length <= 0)
        return;
    endpoint->counts.version_answers++;
    push_packet(endpoint, path, packet, (size_t)length);
}

/* The answer is shorter than the packet, so that two servers do not answer each other for ever (RFC 9000, section
   10.3.3). */
static void answer_reset(http3_endpoint *endpoint, const ngtcp2_path *path, const ngtcp2_version_cid *ids,
                         size_t received)
{
    uint8_t packet[64], random[64], token[NGTCP2_STATELESS_RESET_TOKENLEN];
    ngtcp2_cid id;
    if (ids->dcidlen != HTTP3_ID_LENGTH || received <= PACKET_MIN + 1 || is_too_often(endpoint))
        return;
    size_t capacity = received - 1 < 43 ? received - 1 : 43;
    size_t random_length = capacity - NGTCP2_STATELESS_RESET_TOKENLEN - 1;
    ngtcp2_cid_init(&id, ids->dcid, ids->dcidlen);
    if (random_length < NGTCP2_MIN_STATELESS_RESET_RANDLEN || http3_random(random, random_length) != 0 ||
        ngtcp2_crypto_generate_stateless_reset_token(token, endpoint->settings.secret, HTTP3_SECRET_LENGTH, &id) != 0)
        return;
    ngtcp2_ssize length = ngtcp2_pkt_write_stateless_reset(packet, capacity, token, random, random_length);
    if (length <= 0)
        return;
    endpoint->counts.resets++;
    push_packet(endpoint, path, packet, (size_t)length);
}

static void answer_retry(http3_endpoint *endpoint, const ngtcp2_path *path, const ngtcp2_pkt_hd *head)
{
    uint8_t packet[512], token[NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN2];
    ngtcp2_cid id = {.datalen = HTTP3_ID_LENGTH};
    uint16_t endpoint_id = endpoint->settings.endpoint_id;
    id.data[0] = (uint8_t)(endpoint_id >> 8);
    id.data[1] = (uint8_t)endpoint_id;
    if (http3_random(id.data + 2, HTTP3_ID_LENGTH - 2) != 0)
        return;
    ngtcp2_ssize length = ngtcp2_crypto_generate_retry_token2(token, endpoint->settings.secret, HTTP3_SECRET_LENGTH,
                                                              head->version, path->remote.addr, path->remote.addrlen,
                                                              &id, &head->dcid, endpoint->engine.now);
    if (length <= 0)
        return;
    length = ngtcp2_crypto_write_retry(packet, sizeof packet, head->version, &head->scid, &id, &head->dcid, token,
                                       (size_t)length);
    if (length <= 0)
        return;
    endpoint->counts.retries++;
    push_packet(endpoint, path, packet, (size_t)length);
}

/* The client has a token of a Retry that is not valid for it (RFC 9000, section 8.1.2). */
static void answer_invalid_token(http3_endpoint *endpoint, const ngtcp2_path *path, const ngtcp2_pkt_hd *head)
{
    uint8_t packet[NGTCP2_MAX_UDP_PAYLOAD_SIZE];
    if (is_too_often(endpoint))
        return;
    ngtcp2_ssize length = ngtcp2_crypto_write_connection_close(packet, sizeof packet, head->version, &head->scid,
                                                               &head->dcid, NGTCP2_INVALID_TOKEN, NULL, 0);
    if (length > 0)
        push_packet(endpoint, path, packet, (size_t)length);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Input */

/* What the token of a first packet proves. */
typedef enum proof { PROOF_NONE, PROOF_GIVEN, PROOF_WRONG } proof;

static proof check_token(const http3_endpoint *endpoint, const ngtcp2_path *path, ngtcp2_pkt_hd *head,
                         ngtcp2_cid *original, ngtcp2_token_type *type)
{
    *type = NGTCP2_TOKEN_TYPE_UNKNOWN;
    if (head->tokenlen == 0)
        return PROOF_NONE;
    if (head->token[0] == NGTCP2_CRYPTO_TOKEN_MAGIC_RETRY2) {
        if (ngtcp2_crypto_verify_retry_token2(original, head->token, head->tokenlen, endpoint->settings.secret,
                                              HTTP3_SECRET_LENGTH, head->version, path->remote.addr,
                                              path->remote.addrlen, &head->dcid, RETRY_TIME, endpoint->engine.now) != 0)
            return PROOF_WRONG;
        *type = NGTCP2_TOKEN_TYPE_RETRY;
        return PROOF_GIVEN;
    }
    if (head->token[0] == NGTCP2_CRYPTO_TOKEN_MAGIC_REGULAR &&
        ngtcp2_crypto_verify_regular_token(head->token, head->tokenlen, endpoint->settings.secret, HTTP3_SECRET_LENGTH,
                                           path->remote.addr, path->remote.addrlen, TOKEN_TIME,
                                           endpoint->engine.now) == 0) {
        *type = NGTCP2_TOKEN_TYPE_NEW_TOKEN;
        return PROOF_GIVEN;
    }
    head->token = NULL;
    head->tokenlen = 0;
    return PROOF_NONE;
}

/* A packet for no known connection: the first one of a client, or a late or strange one. */
static void meet(http3_endpoint *endpoint, const ngtcp2_path *path, const ngtcp2_version_cid *ids, uint32_t ecn,
                 const uint8_t *bytes, size_t length, uint64_t now)
{
    ngtcp2_pkt_hd head;
    ngtcp2_cid original;
    ngtcp2_token_type type;
    int result = ngtcp2_accept(&head, bytes, length);
    if (result != 0) {
        if (!(bytes[0] & 0x80))
            answer_reset(endpoint, path, ids, length);
        return;
    }
    if (endpoint->is_ending || endpoint->is_closed) {
        endpoint->counts.refused++;
        endpoint->is_foreign = 1;
        return;
    }
    /* Of two endpoints that look at the same time, both may take the last slot. */
    if (endpoint->port->open_count >= endpoint->settings.connections_max ||
        endpoint->port->handshake_count >= endpoint->settings.handshakes_max) {
        endpoint->counts.refused++;
        return;
    }
    proof found = check_token(endpoint, path, &head, &original, &type);
    if (found == PROOF_WRONG) {
        answer_invalid_token(endpoint, path, &head);
        return;
    }
    if (found == PROOF_NONE && endpoint->port->handshake_count >= endpoint->settings.retry_from) {
        answer_retry(endpoint, path, &head);
        return;
    }
    http3_connection *connection =
        http3_new_connection(endpoint, path, &head, type == NGTCP2_TOKEN_TYPE_RETRY ? &original : NULL, type, now);
    if (connection != NULL && http3_read_packet(connection, path, ecn, bytes, length, now) == NGTCP2_ERR_RETRY)
        answer_retry(endpoint, path, &head);
}

static void receive(http3_endpoint *endpoint, const ngtcp2_path *path, uint32_t ecn, const uint8_t *bytes,
                    size_t length, uint64_t now)
{
    ngtcp2_version_cid ids;
    endpoint->counts.datagrams_received++;
    endpoint->counts.bytes_received += length;
    if (length < PACKET_MIN)
        return;
    int result = ngtcp2_pkt_decode_version_cid(&ids, bytes, length, HTTP3_ID_LENGTH);
    if (result == NGTCP2_ERR_VERSION_NEGOTIATION)
        answer_version(endpoint, path, &ids);
    if (result != 0)
        return;
    http3_connection *connection = http3_find(endpoint, ids.dcid, ids.dcidlen);
    if (connection != NULL)
        (void)http3_read_packet(connection, path, ecn, bytes, length, now);
    else
        meet(endpoint, path, &ids, ecn, bytes, length, now);
}

/* Callers look at the clock before they get the lock, so that of two threads the earlier one may come second. */
static uint64_t advance(http3_endpoint *endpoint, uint64_t now)
{
    if (now > endpoint->engine.now)
        endpoint->engine.now = now;
    return endpoint->engine.now;
}

uint64_t http3_receive(http3_endpoint *endpoint, const http3_datagrams *datagrams, uint64_t now)
{
    http3_address local = {.length = datagrams->local_length}, remote = {.length = datagrams->remote_length};
    if (local.length > HTTP3_ADDRESS_MAX || remote.length > HTTP3_ADDRESS_MAX)
        return 0;
    memcpy(local.bytes, datagrams->local, local.length);
    memcpy(remote.bytes, datagrams->remote, remote.length);
    ngtcp2_path path = {.local = {(ngtcp2_sockaddr *)local.bytes, local.length},     /* NOLINT: it is aligned */
                        .remote = {(ngtcp2_sockaddr *)remote.bytes, remote.length}}; /* NOLINT: it is aligned */
    http_lock(&endpoint->engine);
    now = advance(endpoint, now);
    endpoint->is_promised = 1;
    endpoint->is_foreign = 0;
    const size_t length = datagrams->length;
    const size_t segment = datagrams->segment == 0 || datagrams->segment > length ? length : datagrams->segment;
    for (size_t at = 0; at < length; at += segment)
        receive(endpoint, &path, datagrams->ecn, datagrams->bytes + at, length - at < segment ? length - at : segment,
                now);
    uint64_t flags = http3_flags(endpoint) | (endpoint->is_foreign ? HTTP3_IS_FOREIGN : 0);
    http_unlock(&endpoint->engine);
    return flags;
}

int32_t http3_endpoint_id_of(const uint8_t *bytes, size_t length)
{
    if (length < PACKET_MIN)
        return -1;
    if (!(bytes[0] & 0x80))
        return bytes[1] << 8 | bytes[2];
    if (bytes[5] != HTTP3_ID_LENGTH)
        return -1;
    return bytes[6] << 8 | bytes[7];
}

/* ------------------------------------------------------------------------------------------------------------------
 * Time */

uint64_t http3_expiry(http3_endpoint *endpoint)
{
    http_lock(&endpoint->engine);
    uint64_t expiry = endpoint->heap_count == 0 ? UINT64_MAX : endpoint->heap[0]->expiry;
    http_unlock(&endpoint->engine);
    return expiry;
}

uint64_t http3_handle_expiry(http3_endpoint *endpoint, uint64_t now)
{
    http_lock(&endpoint->engine);
    now = advance(endpoint, now);
    endpoint->is_promised = 1;
    while (endpoint->heap_count > 0 && endpoint->heap[0]->expiry <= now)
        http3_expire(endpoint->heap[0], now);
    uint64_t flags = http3_flags(endpoint);
    http_unlock(&endpoint->engine);
    return flags;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Output */

static void write_loose_packets(http3_endpoint *endpoint, http3_output *output)
{
    uint32_t at = 0;
    while (at < endpoint->packets_length) {
        loose_packet packet;
        memcpy(&packet, endpoint->packets + at, sizeof packet);
        if (output->capacity - output->length < packet.length)
            break;
        memcpy(output->bytes + output->length, endpoint->packets + at + sizeof packet, packet.length);
        if (!http3_add_packet(output, &packet.local, &packet.remote, 0, packet.length))
            break;
        at += (uint32_t)sizeof packet + packet.length;
    }
    endpoint->packets_length -= at;
    if (at > 0 && endpoint->packets_length > 0)
        memmove(endpoint->packets, endpoint->packets + at, endpoint->packets_length);
    if (endpoint->packets_length == 0) {
        free(endpoint->packets);
        endpoint->packets = NULL;
        endpoint->packets_capacity = 0;
    }
}

static int is_full(const http3_endpoint *endpoint, const http3_output *output)
{
    return output->batch_count == output->batches_max ||
           output->capacity - output->length < endpoint->settings.datagram_max;
}

/* Lets each pending connection write a burst, in turn, until the output is full. */
static void write_pending(http3_endpoint *endpoint, http3_output *output, uint64_t now)
{
    size_t before = 0;
    write_loose_packets(endpoint, output);
    /* The second turn is for connections that have ended in the first one: they have a last packet. */
    for (unsigned turn = 0; endpoint->first_pending != NULL && (turn < 2 || output->length > before); turn++) {
        before = output->length;
        http3_connection *last = endpoint->last_pending;
        for (http3_connection *connection = endpoint->first_pending; connection != NULL;) {
            int is_last = connection == last;
            if (is_full(endpoint, output))
                return;
            http3_leave_pending(connection);
            /* It may be freed, unless there is more. */
            if (http3_write_packets(connection, output, now) == HTTP3_MORE_LATER)
                http3_make_pending(connection);
            connection = is_last ? NULL : endpoint->first_pending;
        }
    }
}

static int has_output(const http3_endpoint *endpoint)
{
    return endpoint->first_pending != NULL || endpoint->packets_length > 0;
}

static int is_over(const http3_endpoint *endpoint)
{
    return (endpoint->is_ending || endpoint->is_closed) && endpoint->open_count == 0 && !has_output(endpoint);
}

static void count_output(http3_endpoint *endpoint, const http3_output *output)
{
    endpoint->counts.bytes_sent += output->length;
    for (uint32_t i = 0; i < output->batch_count; i++)
        endpoint->counts.datagrams_sent +=
            (output->batches[i].length + output->batches[i].segment - 1) / output->batches[i].segment;
}

uint64_t http3_collect(http3_endpoint *endpoint, http3_gso_batch *batches, uint32_t batches_max, uint8_t *out,
                       size_t capacity, uint64_t now, http_sender sender)
{
    http_lock(&endpoint->engine);
    if (sender != HTTP_SENDER_NEW)
        endpoint->is_promised = 0;
    if (sender != HTTP_SENDER_AGAIN && endpoint->is_sending) {
        uint64_t flags = http3_flags(endpoint) | HTTP_IS_BUSY;
        http_unlock(&endpoint->engine);
        return flags;
    }
    now = advance(endpoint, now);
    http3_output output = {.batches = batches, .batches_max = batches_max, .bytes = out, .capacity = capacity};
    write_pending(endpoint, &output, now);
    count_output(endpoint, &output);
    uint64_t flags = http3_flags(endpoint) | output.batch_count;
    /* The order of datagrams does not matter. So another thread may have the right while the caller sends these. */
    endpoint->is_sending = output.batch_count > 0 && has_output(endpoint);
    if (!endpoint->is_sending)
        flags |= HTTP_HAS_ENDED;
    if (is_over(endpoint))
        flags |= HTTP_IS_OVER;
    http_unlock(&endpoint->engine);
    return flags;
}

void http3_stop_sending(http3_endpoint *endpoint)
{
    http_lock(&endpoint->engine);
    endpoint->is_sending = 0;
    http_unlock(&endpoint->engine);
}

int http3_needs_sender(http3_endpoint *endpoint)
{
    http_lock(&endpoint->engine);
    int needs = !endpoint->is_promised && !endpoint->is_sending && has_output(endpoint);
    http_unlock(&endpoint->engine);
    return needs;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Connections */

void http3_announce_end(http3_endpoint *endpoint, http_end end)
{
    http_lock(&endpoint->engine);
    endpoint->is_ending = 1;
    if (end == HTTP_END_LAST)
        endpoint->is_last = 1;
    for (http3_connection *connection = endpoint->connections; connection != NULL; connection = connection->next)
        http3_announce(connection, end);
    http_unlock(&endpoint->engine);
}

static void end_with(http3_connection *connection, uint64_t code, uint64_t now)
{
    http3_fail(connection, code);
    http3_end_connection(connection, 0, now);
}

void http3_close(http3_endpoint *endpoint, uint64_t code, uint64_t now)
{
    http_lock(&endpoint->engine);
    endpoint->is_closed = 1;
    now = advance(endpoint, now);
    for (http3_connection *connection = endpoint->connections, *next; connection != NULL; connection = next) {
        next = connection->next;
        end_with(connection, code, now);
    }
    http_unlock(&endpoint->engine);
}

/* Whether the connection has been without a request for too long. 0: there is no limit. */
static int is_idle_too_long(const http3_connection *connection, uint64_t now, uint64_t limit, uint64_t fresh)
{
    uint64_t most = connection->had_requests ? limit : fresh;
    return connection->phase == HTTP3_OPEN && connection->is_established && connection->open_streams == 0 && most > 0 &&
           now >= connection->active_at && now - connection->active_at >= most;
}

uint32_t http3_end_idle(http3_endpoint *endpoint, uint64_t now, uint64_t limit, uint64_t fresh)
{
    uint32_t count = 0;
    http_lock(&endpoint->engine);
    now = advance(endpoint, now);
    for (http3_connection *connection = endpoint->connections, *next; connection != NULL; connection = next) {
        next = connection->next;
        if (!is_idle_too_long(connection, now, limit, fresh))
            continue;
        end_with(connection, HTTP3_NO_ERROR, now);
        count++;
    }
    http_unlock(&endpoint->engine);
    return count;
}

void http3_end_one(http3_endpoint *endpoint, uint64_t number, uint64_t now)
{
    http_lock(&endpoint->engine);
    now = advance(endpoint, now);
    http3_connection *connection = endpoint->connections;
    while (connection != NULL && connection->number != number)
        connection = connection->next;
    if (connection != NULL)
        end_with(connection, HTTP3_NO_ERROR, now);
    http_unlock(&endpoint->engine);
}

uint32_t http3_rest_quiet(http3_endpoint *endpoint, uint64_t now, uint64_t quiet, uint32_t most)
{
    uint32_t count = 0;
    http_lock(&endpoint->engine);
    now = advance(endpoint, now);
    for (http3_connection *connection = endpoint->connections; connection != NULL && count < most;
         connection = connection->next)
        count += http3_rest(connection, now, quiet) != 0;
    http_unlock(&endpoint->engine);
    return count;
}

uint32_t http3_connection_count(http3_endpoint *endpoint)
{
    http_lock(&endpoint->engine);
    uint32_t count = endpoint->open_count;
    http_unlock(&endpoint->engine);
    return count;
}

uint32_t http3_stream_count(http3_endpoint *endpoint)
{
    http_lock(&endpoint->engine);
    uint32_t count = endpoint->stream_count;
    http_unlock(&endpoint->engine);
    return count;
}

void http3_count(http3_endpoint *endpoint, http3_counts *counts)
{
    http_lock(&endpoint->engine);
    *counts = endpoint->counts;
    http_unlock(&endpoint->engine);
}
