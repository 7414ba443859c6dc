/*
 * http2_flow.c - how large the windows are that an HTTP/2 client has for sending. Must not know: GHC, sockets, the
 * clock.
 *
 * While bodies arrive, a PING measures how many bytes come within a round trip. libnghttp2 sends a WINDOW_UPDATE when
 * half of a window has been read. So a window must hold what comes in two round trips, or the client has to wait. A
 * smaller one is made sixteen times as large: two such steps lead from the first window to the largest one. The
 * effect of a step shows two round trips later, so with smaller steps an upload over a long link would end before the
 * window is large. A window never shrinks. It costs memory only if the application does not read, so it does not grow
 * while much is unread.
 */
#include "http2_internal.h"

#define GROWTH 16u

#define PROBE_PAUSE     (HTTP2_SECOND / 10)
#define PROBES_IN_A_ROW 10u

static const uint8_t probe_text[8] = {'m', 'i', 'l', 'l', 'r', 'a', 'c', 'e'};

static uint32_t smaller_of(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* Half of the connection's window: a stream whose body is not read leaves the other half to the others. */
static uint32_t stream_most(const http2_connection *connection)
{
    return connection->settings->window_max / 2;
}

static int are_widest(const http2_connection *connection)
{
    return connection->stream_window >= stream_most(connection) &&
           connection->connection_window >= connection->settings->window_max;
}

/* Called when the client has acknowledged the settings. */
void http2_note_known_window(http2_connection *connection, nghttp2_session *session)
{
    connection->known_window = nghttp2_session_get_local_settings(session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
}

/* Whether the client has not yet acknowledged the current window of streams. RFC 9113's initial window does not count,
 * because measuring with that one is useful, too. */
static int has_unacknowledged_window(const http2_connection *connection)
{
    return connection->known_window != connection->stream_window &&
           connection->known_window != NGHTTP2_INITIAL_WINDOW_SIZE;
}

void http2_begin_probe(http2_connection *connection)
{
    if (connection->is_probing || connection->probe_bytes == 0 || are_widest(connection) ||
        has_unacknowledged_window(connection) ||
        (connection->idle_probes >= PROBES_IN_A_ROW && connection->engine.now < connection->probe_after))
        return;
    if (nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, probe_text) != 0)
        return;
    connection->is_probing = 1;
    connection->probe_sent_at = connection->engine.now;
    connection->probe_bytes = 0;
    connection->probed_window = smaller_of(connection->known_window, connection->connection_window);
}

static uint32_t widened(uint32_t window, uint32_t most)
{
    if (window >= most)
        return window;
    return window > most / GROWTH ? most : GROWTH * window;
}

static void widen_windows(http2_connection *connection)
{
    connection->connection_window = widened(connection->connection_window, connection->settings->window_max);
    connection->stream_window = widened(connection->stream_window, stream_most(connection));
    http2_note_result(connection, nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0,
                                                                        (int32_t)connection->connection_window));
    nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, connection->stream_window};
    http2_note_result(connection, nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, &entry, 1));
}

void http2_end_probe(http2_connection *connection)
{
    if (!connection->is_probing)
        return;
    connection->is_probing = 0;
    if (connection->probe_bytes >= (uint64_t)connection->probed_window / 8 * 3 &&
        connection->streams.unread <= connection->probe_bytes / 2) {
        widen_windows(connection);
        connection->idle_probes = 0;
    } else {
        connection->idle_probes++;
        connection->probe_after = connection->engine.now + PROBE_PAUSE;
    }
    connection->probe_bytes = 0;
}
