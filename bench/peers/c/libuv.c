/*
 * libuv.c: the same servers on libuv, with one loop. answer.c has the answers. It follows libuv's guide: one shared
 * read buffer, then uv_try_write, and uv_write only for the bytes that did not fit.
 */
#define _GNU_SOURCE
#include "answer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct connection {
    uv_tcp_t stream;
    uv_write_t write;
    bool writing;
    struct dialogue dialogue;
};

static void write_owed(struct connection *connection);

static void closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void end(struct connection *connection)
{
    if (!uv_is_closing((uv_handle_t *)&connection->stream))
        uv_close((uv_handle_t *)&connection->stream, closed);
}

static void written(uv_write_t *write, int status)
{
    struct connection *connection = write->data;
    connection->writing = false;
    if (status < 0)
        end(connection);
    else
        write_owed(connection);
}

static void write_owed(struct connection *connection)
{
    const char *bytes;
    size_t length;
    uv_stream_t *stream = (uv_stream_t *)&connection->stream;
    while (!connection->writing && (length = dialogue_unsent(&connection->dialogue, &bytes)) > 0) {
        uv_buf_t buffer = uv_buf_init((char *)bytes, (unsigned)length);
        int result = uv_try_write(stream, &buffer, 1);
        if (result > 0) {
            dialogue_sent(&connection->dialogue, (size_t)result);
        } else if (result == UV_EAGAIN) {
            dialogue_sent(&connection->dialogue, length);
            connection->writing = true;
            connection->write.data = connection;
            uv_write(&connection->write, stream, &buffer, 1, written);
        } else {
            end(connection);
            return;
        }
    }
    if (connection->dialogue.closing && !connection->writing)
        end(connection);
}

static void lend_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    static char shared[65536];
    (void)handle, (void)suggested;
    *buffer = uv_buf_init(shared, sizeof shared);
}

static void received(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    if (length < 0) {
        end(connection);
    } else if (length > 0) {
        dialogue_received(&connection->dialogue, buffer->base, (size_t)length);
        write_owed(connection);
    }
}

static void connected(uv_stream_t *listener, int status)
{
    struct connection *connection;
    if (status < 0 || (connection = calloc(1, sizeof *connection)) == NULL)
        return;
    uv_tcp_init(listener->loop, &connection->stream);
    connection->stream.data = connection;
    if (uv_accept(listener, (uv_stream_t *)&connection->stream) < 0 ||
        uv_read_start((uv_stream_t *)&connection->stream, lend_buffer, received) < 0)
        end(connection);
}

int main(int count, char **values)
{
    struct arguments arguments = arguments_parse(count, values);
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    answer_prepare(arguments.service);
    if (arguments.threads != 1) {
        fprintf(stderr, "%s: one loop, hence one thread\n", values[0]);
        return 2;
    }
    if (uv_tcp_init(loop, &listener) < 0 || uv_tcp_open(&listener, listener_open(arguments.port, 0)) < 0 ||
        uv_listen((uv_stream_t *)&listener, 4096, connected) < 0) {
        fprintf(stderr, "%s: cannot listen\n", values[0]);
        return 1;
    }
    return uv_run(loop, UV_RUN_DEFAULT);
}
