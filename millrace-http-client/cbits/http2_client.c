/* http2_client.c - connections of an HTTP/2 client: http2_client.h. Must not know: GHC, sockets, the clock. */
#include <stdlib.h>
#include <string.h>

#include "http2_client_internal.h"

http2_client *http2_client_open(const http2_client_settings *settings)
{
    http2_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    client->settings = *settings;
    client->writer_sleeps = 1;
    pthread_mutex_init(&client->lock, NULL);
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
    client->is_over = 1;
    http2_client_begin_leaving(client);
    client->has_new_state = 1;
    for (http2_client_stream *stream = client->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->is_closed)
            continue;
        if (!stream->has_sent_head)
            http2_client_fail(stream, HTTP2_CLIENT_REFUSED, NGHTTP2_REFUSED_STREAM);
        else if (!stream->has_ended)
            http2_client_fail(stream, HTTP2_CLIENT_LOST, 0);
        nghttp2_session_set_stream_user_data(client->session, stream->id, NULL);
        http2_client_stream_over(stream);
    }
}

void http2_client_end(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    end(client);
    pthread_mutex_unlock(&client->lock);
}

void http2_client_free(http2_client *client)
{
    nghttp2_session_del(client->session);
    while (client->streams != NULL)
        http2_client_stream_free(client->streams);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

void http2_client_feed(http2_client *client, const uint8_t *bytes, size_t length)
{
    pthread_mutex_lock(&client->lock);
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
    pthread_mutex_unlock(&client->lock);
}

/* The frame of an end without bytes (submit_end). */
static void make_end(http2_client *client)
{
    static const uint8_t nothing[3];
    if (client->unsent_length != sizeof client->end_frame || client->unsent[3] != NGHTTP2_HEADERS ||
        memcmp(client->unsent, nothing, sizeof nothing) != 0)
        return;
    memcpy(client->end_frame, client->unsent, sizeof client->end_frame);
    client->end_frame[3] = NGHTTP2_DATA;
    client->end_frame[4] = NGHTTP2_FLAG_END_STREAM;
    client->unsent = client->end_frame;
}

size_t http2_client_collect(http2_client *client, uint8_t *out, size_t room)
{
    size_t filled = 0;
    pthread_mutex_lock(&client->lock);
    client->writer_sleeps = 0;
    while (!client->is_over) {
        if (client->unsent_length == 0) {
            ssize_t count =
                client->is_lost ? NGHTTP2_ERR_NOMEM : nghttp2_session_mem_send(client->session, &client->unsent);
            if (count < 0) {
                client->has_failed |= count != NGHTTP2_ERR_NOMEM;
                end(client);
            }
            if (count <= 0)
                break;
            client->unsent_length = (size_t)count;
            make_end(client);
        }
        if (client->unsent_length > room - filled && filled > 0)
            break;
        size_t fitting = client->unsent_length < room - filled ? client->unsent_length : room - filled;
        memcpy(out + filled, client->unsent, fitting);
        filled += fitting;
        client->unsent += fitting;
        client->unsent_length -= fitting;
    }
    if (filled == 0) {
        client->writer_sleeps = 1;
        if (!client->is_over && !nghttp2_session_want_read(client->session) &&
            !nghttp2_session_want_write(client->session))
            end(client);
    }
    pthread_mutex_unlock(&client->lock);
    return filled;
}

int http2_client_needs_writer(http2_client *client)
{
    int needs;
    pthread_mutex_lock(&client->lock);
    needs =
        client->writer_sleeps && !client->is_over && (client->is_lost || nghttp2_session_want_write(client->session));
    if (needs)
        client->writer_sleeps = 0;
    pthread_mutex_unlock(&client->lock);
    return needs;
}

uint32_t http2_client_state(http2_client *client)
{
    uint32_t state;
    pthread_mutex_lock(&client->lock);
    state = (client->is_ready ? HTTP2_CLIENT_IS_READY : 0) | (client->is_leaving ? HTTP2_CLIENT_IS_LEAVING : 0) |
            (client->is_over ? HTTP2_CLIENT_IS_OVER : 0) | (client->has_failed ? HTTP2_CLIENT_HAS_FAILED : 0);
    if (client->is_ready &&
        nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1)
        state |= HTTP2_CLIENT_CAN_CONNECT;
    pthread_mutex_unlock(&client->lock);
    return state;
}

uint32_t http2_client_stream_count(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    uint32_t count = client->stream_count;
    pthread_mutex_unlock(&client->lock);
    return count;
}

uint32_t http2_client_streams_max(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    uint32_t count = nghttp2_session_get_remote_settings(client->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    pthread_mutex_unlock(&client->lock);
    return count;
}

void http2_client_ping(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    if (!client->is_over)
        http2_client_must_tell(client, nghttp2_submit_ping(client->session, NGHTTP2_FLAG_NONE, NULL));
    pthread_mutex_unlock(&client->lock);
}

void http2_client_leave(http2_client *client)
{
    pthread_mutex_lock(&client->lock);
    if (!client->is_over) {
        http2_client_begin_leaving(client);
        http2_client_must_tell(client,
                               nghttp2_submit_goaway(client->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0));
    }
    pthread_mutex_unlock(&client->lock);
}
