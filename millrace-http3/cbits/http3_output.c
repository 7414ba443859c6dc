/*
 * http3_output.c - the packets of a connection. Must not know: GHC, sockets, the clock.
 */
#include <string.h>

#include "http3_internal.h"

/* A batch of more, or larger ones, is refused by Linux (UDP_MAX_SEGMENTS). */
#define BATCH_PACKETS 64u
#define BATCH_BYTES   65000u

static int fits_behind(const http3_gso_batch *batch, const http3_address *local, const http3_address *remote,
                       uint32_t ecn, size_t length)
{
    return batch->ecn == ecn && length <= batch->segment && batch->length % batch->segment == 0 &&
           batch->length / batch->segment < BATCH_PACKETS && batch->length + length <= BATCH_BYTES &&
           http3_is_address(batch->remote, batch->remote_length, remote) &&
           http3_is_address(batch->local, batch->local_length, local);
}

int http3_add_packet(http3_output *output, const http3_address *local, const http3_address *remote, uint32_t ecn,
                     size_t length)
{
    http3_gso_batch *last = output->batch_count == 0 ? NULL : &output->batches[output->batch_count - 1];
    if (last != NULL && fits_behind(last, local, remote, ecn, length)) {
        last->length += (uint32_t)length;
    } else {
        if (output->batch_count == output->batches_max)
            return 0;
        http3_gso_batch *batch = &output->batches[output->batch_count++];
        *batch = (http3_gso_batch){.offset = (uint32_t)output->length,
                                   .length = (uint32_t)length,
                                   .segment = (uint32_t)length,
                                   .ecn = ecn,
                                   .remote_length = remote->length,
                                   .local_length = local->length};
        memcpy(batch->remote, remote->bytes, remote->length);
        memcpy(batch->local, local->bytes, local->length);
    }
    output->length += length;
    return 1;
}

static http3_written write_close(http3_connection *connection, http3_output *output)
{
    if (!connection->close_is_due)
        return HTTP3_NO_MORE;
    if (output->capacity - output->length < connection->close_length || output->batch_count == output->batches_max)
        return HTTP3_MORE_LATER;
    memcpy(output->bytes + output->length, connection->close_packet, connection->close_length);
    http3_add_packet(output, &connection->local, &connection->remote, 0, connection->close_length);
    connection->close_is_due = 0;
    return HTTP3_NO_MORE;
}

static http_stream *stream_with(http3_connection *connection, int64_t id)
{
    if (connection->writing != NULL && http3_id_of(connection->writing) == id)
        return connection->writing;
    for (http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next)
        if (http3_id_of(stream) == id) {
            connection->writing = stream;
            return stream;
        }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------------
 * While the client's window of the connection is closed, libnghttp3 is not asked for output: nothing could be
 * sent. But the end of a body that comes without bytes needs no window. Then it is asked, and each stream that has
 * bytes must wait until the window opens. */

static int may_write(const http3_connection *connection)
{
    return connection->http != NULL &&
           (connection->has_late_end || ngtcp2_conn_get_max_data_left(connection->quic) > 0);
}

/* The stream has bytes, and the window is closed. */
static void block_stream(http3_connection *connection, int64_t id)
{
    nghttp3_conn_block_stream(connection->http, id);
    http_stream *stream = ngtcp2_is_bidi_stream(id) ? stream_with(connection, id) : NULL;
    if (stream != NULL)
        http3_own(stream)->is_blocked = 1;
    connection->has_blocked = 1;
}

static void unblock_streams(http3_connection *connection)
{
    if (!connection->has_blocked || ngtcp2_conn_get_max_data_left(connection->quic) == 0)
        return;
    connection->has_blocked = 0;
    for (unsigned i = 0; i < HTTP3_OWN_STREAMS; i++)
        (void)nghttp3_conn_unblock_stream(connection->http, connection->own_streams[i]);
    for (http_stream *stream = connection->streams.first; stream != NULL; stream = stream->next) {
        if (http3_own(stream)->is_blocked && !stream->is_closed)
            (void)nghttp3_conn_unblock_stream(connection->http, http3_id_of(stream));
        http3_own(stream)->is_blocked = 0;
    }
}

/* ngtcp2 has taken the end of a stream. */
static int note_end(http3_connection *connection, http_stream *stream)
{
    uint64_t unreported = http3_own(stream)->unreported;
    http3_own(stream)->end_waits = 0;
    http3_own(stream)->unreported = 0;
    return unreported == 0 ? 0 : http3_tell_acknowledged(connection, http3_id_of(stream), unreported);
}

/* ngtcp2 has taken bytes of a stream, perhaps with its end. */
static int note_accepted(http3_connection *connection, int64_t id, ngtcp2_ssize length, int is_end)
{
    int result = nghttp3_conn_add_write_offset(connection->http, id, (size_t)length);
    if (result != 0) {
        (void)http3_failed(connection, result);
        return -1;
    }
    http_stream *stream = ngtcp2_is_bidi_stream(id) ? stream_with(connection, id) : NULL;
    if (stream == NULL) {
        connection->streams.accepted += (uint64_t)length;
        return 0;
    }
    http3_note_accepted(stream, (uint64_t)length);
    return is_end ? note_end(connection, stream) : 0;
}

/* ngtcp2 takes no more of a stream. Either it was reset here, or the client wants nothing more of it (STOP_SENDING),
 * which ngtcp2 answers with a reset, and does not tell. */
static void lose_output(http3_connection *connection, int64_t id)
{
    http_stream *stream = ngtcp2_is_bidi_stream(id) ? stream_with(connection, id) : NULL;
    nghttp3_conn_shutdown_stream_write(connection->http, id);
    if (stream != NULL && !stream->has_failed) {
        (void)http3_is_cancelled_too_often(connection, stream);
        http_lose_stream(stream);
    }
}

#define PIECES 16u

/* Writes one packet. Returns its length, 0 if there is none to be sent now, or a negative number when the connection
   must end. */
static ngtcp2_ssize write_packet(http3_connection *connection, ngtcp2_path *path, ngtcp2_pkt_info *info, uint8_t *out,
                                 size_t capacity, uint64_t now)
{
    for (;;) {
        nghttp3_vec pieces[PIECES];
        nghttp3_ssize count = 0;
        ngtcp2_ssize taken = -1;
        int64_t id = -1;
        int is_end = 0;
        if (may_write(connection)) {
            count = nghttp3_conn_writev_stream(connection->http, &id, &is_end, pieces, PIECES);
            if (count < 0) {
                (void)http3_failed(connection, count);
                return -1;
            }
            if (id < 0)
                connection->has_late_end = 0;
            if (nghttp3_vec_len(pieces, (size_t)count) > 0 && ngtcp2_conn_get_max_data_left(connection->quic) == 0) {
                block_stream(connection, id);
                continue;
            }
        }
        ngtcp2_ssize length =
            ngtcp2_conn_writev_stream(connection->quic, path, info, out, capacity, &taken,
                                      NGTCP2_WRITE_STREAM_FLAG_MORE | (is_end ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0), id,
                                      (const ngtcp2_vec *)pieces, (size_t)count, now);
        if (length == NGTCP2_ERR_STREAM_DATA_BLOCKED)
            nghttp3_conn_block_stream(connection->http, id);
        else if (length == NGTCP2_ERR_STREAM_SHUT_WR || length == NGTCP2_ERR_STREAM_NOT_FOUND)
            lose_output(connection, id);
        else if (length < 0 && length != NGTCP2_ERR_WRITE_MORE)
            return length;
        int takes_end = is_end && taken == (ngtcp2_ssize)nghttp3_vec_len(pieces, (size_t)count);
        if (taken >= 0 && id >= 0 && note_accepted(connection, id, taken, takes_end) != 0)
            return -1;
        if (length >= 0)
            return length;
    }
}

/* How long a connection that is to end stays after its last request. The client has received the answer, but its
 * program may not have read all of it, and clients forget what was not read when the connection ends. */
#define LINGER HTTP3_SECOND

/* When a connection that is to end does so. UINT64_MAX: not before other things happen. */
static uint64_t end_of(const http3_connection *connection)
{
    /* A client that has gone beyond a limit does not stay for handlers that work for nobody. */
    int has_work = connection->open_streams > 0 && connection->streams.conduct.limit == HTTP_LIMIT_NONE;
    if (!connection->is_last_announced || has_work || !nghttp3_conn_is_drained(connection->http))
        return UINT64_MAX;
    return connection->active_at + LINGER;
}

/* When a client seems to be at another address, ngtcp2 asks there for a confirmation, and goes back to the old address
 * if none comes. But version 1.11 forgets to look at the time if it may not send more to the new address. Then somebody
 * who repeats a packet from another address could stop a response. So it is called so often, for a time in which the
 * confirmation must have come. */
#define LOOK_STEP (500 * HTTP3_MILLISECOND)

static void set_next_expiry(http3_connection *connection, uint64_t now)
{
    uint64_t expiry = ngtcp2_conn_get_expiry(connection->quic), end = end_of(connection);
    if (now < connection->looks_until && expiry > now + LOOK_STEP)
        expiry = now + LOOK_STEP;
    if (end < expiry)
        expiry = end;
    if (connection->last_at < expiry)
        expiry = connection->last_at;
    http3_set_expiry(connection, expiry);
}

http3_written http3_write_packets(http3_connection *connection, http3_output *output, uint64_t now)
{
    ngtcp2_conn *quic = connection->quic;
    if (connection->phase != HTTP3_OPEN)
        return write_close(connection, output);
    http3_note_sent(connection);
    unblock_streams(connection);
    http_submit_answers(&connection->streams);
    size_t burst = ngtcp2_conn_get_send_quantum(quic), written = 0;
    for (;;) {
        ngtcp2_path_storage path;
        ngtcp2_pkt_info info = {0};
        http3_address local, remote;
        size_t most = ngtcp2_conn_get_max_tx_udp_payload_size(quic);
        if (written >= burst || output->capacity - output->length < most ||
            output->batch_count == output->batches_max) {
            connection->sent_at = now;
            http3_note_sent(connection);
            set_next_expiry(connection, now);
            return HTTP3_MORE_LATER;
        }
        ngtcp2_path_storage_zero(&path);
        ngtcp2_ssize length = write_packet(connection, &path.path, &info, output->bytes + output->length, most, now);
        if (length < 0) {
            http3_end_connection(connection, connection->has_error ? 0 : (int)length, now);
            return HTTP3_NO_MORE;
        }
        if (length == 0)
            break;
        http3_copy_address(&local, &path.path.local);
        http3_copy_address(&remote, &path.path.remote);
        http3_add_packet(output, &local, &remote, info.ecn, (size_t)length);
        written += (size_t)length;
    }
    http3_leave_pending(connection); /* what was noted meanwhile was tried, too */
    if (written > 0)
        connection->sent_at = now;
    set_next_expiry(connection, now);
    http3_begin_end(connection);
    if (connection->has_error || end_of(connection) <= now) {
        if (connection->streams.conduct.limit != HTTP_LIMIT_NONE)
            http3_fail_for_limit(connection);
        http3_fail(connection, HTTP3_NO_ERROR);
        http3_end_connection(connection, 0, now);
    }
    return HTTP3_NO_MORE;
}
