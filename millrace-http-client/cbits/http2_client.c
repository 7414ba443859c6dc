/* http2_client.c - connections of an HTTP/2 client: http2_client.h. Must not know: GHC, sockets, the clock. */
#include <stdlib.h>
#include <string.h>

#include "http2_client_internal.h"

void http2_client_note_state(http2_client *client)
{
    http_notify_engine(&client->engine, HTTP_READABLE);
}

void http2_client_begin_leaving(http2_client *client)
{
    if (!client->is_leaving) {
        client->is_leaving = 1;
        http2_client_note_state(client);
    }
}

void http2_client_note_result(http2_client *client, int result)
{
    client->is_lost |= result == NGHTTP2_ERR_NOMEM;
}

http2_client *http2_client_open(const http2_client_settings *settings)
{
    http2_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    if (http_engine_begin(&client->engine, &http2_client_protocol) != 0) {
        free(client);
        return NULL;
    }
    client->engine.output_high = settings->output_high;
    client->settings = *settings;
    client->sender_sleeps = 1;
    client->session = http2_client_new_session(client);
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, settings->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, settings->head_max},
    };
    if (client->session == NULL ||
        nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, entries, sizeof entries / sizeof *entries) != 0 ||
        nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0,
                                              (int32_t)settings->connection_window) != 0) {
        http2_client_free(client);
        return NULL;
    }
    return client;
}

static void end(http2_client *client)
{
    if (client->is_over)
        return;
    client->is_over = client->is_leaving = 1;
    http2_client_note_state(client);
    for (http_stream *stream = client->streams.first, *next; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->is_closed)
            continue;
        if (!http2_client_own(stream)->has_sent_head)
            http2_client_fail(stream, HTTP2_CLIENT_REFUSED, NGHTTP2_REFUSED_STREAM);
        else if (!stream->has_ended)
            http2_client_fail(stream, HTTP2_CLIENT_LOST, 0);
        nghttp2_session_set_stream_user_data(client->session, http2_client_id(stream), NULL);
        http2_client_close_stream(stream);
    }
}

void http2_client_close(http2_client *client)
{
    http_lock(&client->engine);
    end(client);
    http_unlock(&client->engine);
}

void http2_client_free(http2_client *client)
{
    nghttp2_session_del(client->session);
    while (client->streams.first != NULL)
        http2_client_free_stream(client->streams.first);
    http_engine_end(&client->engine);
    free(client);
}

void http2_client_feed(http2_client *client, const uint8_t *bytes, size_t length)
{
    http_lock(&client->engine);
    if (!client->is_over) {
        ssize_t count = nghttp2_session_mem_recv(client->session, bytes, length);
        if (client->is_lost || count == NGHTTP2_ERR_NOMEM)
            end(client);
        else if (count < 0 || !nghttp2_session_want_read(client->session)) {
            /* libnghttp2 has a GOAWAY to send if the server is to blame. */
            client->has_failed |= count < 0 || !client->is_leaving;
            http2_client_begin_leaving(client);
            if (count < 0 || !nghttp2_session_want_write(client->session))
                end(client);
        }
    }
    http_unlock(&client->engine);
}

/* The frame of an end without bytes (submit_end). */
static void make_end(http2_client *client)
{
    static const uint8_t nothing[3];
    if (client->left_length != sizeof client->end_frame || client->left[3] != NGHTTP2_HEADERS ||
        memcmp(client->left, nothing, sizeof nothing) != 0)
        return;
    memcpy(client->end_frame, client->left, sizeof client->end_frame);
    client->end_frame[3] = NGHTTP2_DATA;
    client->end_frame[4] = NGHTTP2_FLAG_END_STREAM;
    client->left = client->end_frame;
}

size_t http2_client_collect(http2_client *client, uint8_t *out, size_t capacity)
{
    size_t filled = 0;
    http_lock(&client->engine);
    client->sender_sleeps = 0;
    while (!client->is_over) {
        if (client->left_length == 0) {
            ssize_t count =
                client->is_lost ? NGHTTP2_ERR_NOMEM : nghttp2_session_mem_send(client->session, &client->left);
            if (count < 0) {
                client->has_failed |= count != NGHTTP2_ERR_NOMEM;
                end(client);
            }
            if (count <= 0)
                break;
            client->left_length = (size_t)count;
            make_end(client);
        }
        if (client->left_length > capacity - filled && filled > 0)
            break;
        size_t fitting = client->left_length < capacity - filled ? client->left_length : capacity - filled;
        memcpy(out + filled, client->left, fitting);
        filled += fitting;
        client->left += fitting;
        client->left_length -= fitting;
    }
    if (filled == 0) {
        client->sender_sleeps = 1;
        if (!client->is_over && !nghttp2_session_want_read(client->session) &&
            !nghttp2_session_want_write(client->session))
            end(client);
    }
    http_unlock(&client->engine);
    return filled;
}

int http2_client_needs_sender(http2_client *client)
{
    int needs;
    http_lock(&client->engine);
    needs =
        client->sender_sleeps && !client->is_over && (client->is_lost || nghttp2_session_want_write(client->session));
    if (needs)
        client->sender_sleeps = 0;
    http_unlock(&client->engine);
    return needs;
}

uint32_t http2_client_state(http2_client *client)
{
    uint32_t state;
    http_lock(&client->engine);
    state = (client->is_ready ? HTTP2_CLIENT_IS_READY : 0) | (client->is_leaving ? HTTP2_CLIENT_IS_LEAVING : 0) |
            (client->is_over ? HTTP2_CLIENT_IS_OVER : 0) | (client->has_failed ? HTTP2_CLIENT_HAS_FAILED : 0);
    if (client->is_ready &&
        nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1)
        state |= HTTP2_CLIENT_CAN_CONNECT;
    http_unlock(&client->engine);
    return state;
}

int64_t http2_client_next_notice(http2_client *client)
{
    return http_next_notice(&client->engine);
}

uint32_t http2_client_stream_count(http2_client *client)
{
    http_lock(&client->engine);
    uint32_t count = client->stream_count;
    http_unlock(&client->engine);
    return count;
}

uint32_t http2_client_streams_max(http2_client *client)
{
    http_lock(&client->engine);
    uint32_t count = nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    http_unlock(&client->engine);
    return count;
}

void http2_client_ping(http2_client *client)
{
    http_lock(&client->engine);
    if (!client->is_over)
        http2_client_note_result(client, nghttp2_submit_ping(client->session, NGHTTP2_FLAG_NONE, NULL));
    http_unlock(&client->engine);
}

void http2_client_announce_end(http2_client *client)
{
    http_lock(&client->engine);
    if (!client->is_over) {
        http2_client_begin_leaving(client);
        http2_client_note_result(
            client, nghttp2_submit_goaway(client->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0));
    }
    http_unlock(&client->engine);
}
