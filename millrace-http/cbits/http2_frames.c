/*
 * http2_frames.c - what is checked of a client's frames before libnghttp2 gets them. Must not know: GHC, sockets, the
 * clock.
 */
#include <string.h>

#include "http2_internal.h"

/* A WINDOW_UPDATE that gives back at least this many bytes of what was sent counts as useful. nginx is as strict: more
 * than eight times as many bytes for control as for bodies are a flood to it. */
#define RETURN_MIN 4u

/* NGHTTP2_ERR_TOO_MANY_CONTINUATIONS. Older headers do not have it. */
#define TOO_MANY_CONTINUATIONS (-905)

/* ------------------------------------------------------------------------------------------------------------------
 * Limits: http_limit.h */

void http2_violate(http2_connection *connection, uint32_t code)
{
    if (connection->violation == 0)
        connection->violation = code;
}

void http2_obey(http2_connection *connection, http_verdict verdict)
{
    if (verdict == HTTP_END_AT_ONCE)
        http2_violate(connection, NGHTTP2_ENHANCE_YOUR_CALM);
}

void http2_exceed(http2_connection *connection, http_limit limit)
{
    http_conduct_exceed(&connection->streams.conduct, limit);
    http2_violate(connection, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Closed streams (RFC 9113, section 5.1). libnghttp2 keeps no records of them (see make_option), so a few are
 * remembered here. */

void http2_remember(http2_memory *memory, int32_t id)
{
    uint32_t slot = memory->next++ % HTTP2_REMEMBERED;
    memory->ids[slot] = id;
    memory->reset_by_us &= ~(1u << slot);
    memory->reset_by_client &= ~(1u << slot);
}

void http2_remember_reset(http2_memory *memory, int32_t id)
{
    for (uint32_t slot = 0; slot < HTTP2_REMEMBERED; slot++)
        if (memory->ids[slot] == id)
            memory->reset_by_us |= 1u << slot;
}

/* The client has reset the stream. Frames that it sends afterwards are errors, even if the server has also reset it. */
static void remember_cancelled(http2_memory *memory, int32_t id)
{
    for (uint32_t slot = 0; slot < HTTP2_REMEMBERED; slot++)
        if (memory->ids[slot] == id) {
            memory->reset_by_us &= ~(1u << slot);
            memory->reset_by_client |= 1u << slot;
        }
}

static int is_cancelled(const http2_memory *memory, int32_t id)
{
    for (uint32_t slot = 0; slot < HTTP2_REMEMBERED; slot++)
        if (memory->ids[slot] == id)
            return (memory->reset_by_client >> slot & 1) != 0;
    return 0;
}

/* Returns the error code for a frame on a stream that is not open; NGHTTP2_NO_ERROR if it may be all right. */
static uint32_t judge_closed(const http2_connection *connection, int32_t id, int is_headers)
{
    const http2_memory *memory = &connection->memory;
    int32_t oldest = INT32_MAX, newest = 0;
    for (uint32_t slot = 0; slot < HTTP2_REMEMBERED; slot++) {
        if (memory->ids[slot] == id)
            return memory->reset_by_us >> slot & 1 ? NGHTTP2_NO_ERROR : NGHTTP2_STREAM_CLOSED;
        if (memory->ids[slot] != 0 && memory->ids[slot] < oldest)
            oldest = memory->ids[slot];
        if (memory->ids[slot] > newest)
            newest = memory->ids[slot];
    }
    /* A new stream, or one that is too old to be remembered. */
    if (id > newest || (id < oldest && memory->next > HTTP2_REMEMBERED))
        return NGHTTP2_NO_ERROR;
    return is_headers ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED;
}

/* A frame of a stream that the client itself has reset: the error is the stream's alone. grpc-java 1.68 sends the
 * message of a call behind the RST_STREAM that cancels it. One RST_STREAM answers all such frames of a stream. */
static void refuse_behind_reset(http2_connection *connection, int32_t id)
{
    if (judge_closed(connection, id, 0) == NGHTTP2_NO_ERROR)
        return;
    http2_note_result(connection,
                      nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, id, NGHTTP2_STREAM_CLOSED));
    http2_remember_reset(&connection->memory, id);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Input
 *
 * The head of each frame is checked before libnghttp2 gets it, because libnghttp2 does not report frames that it
 * ignores. */

uint32_t http2_number_at(const uint8_t *bytes, size_t count)
{
    uint32_t number = 0;
    for (size_t i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

/* The bytes of a frame that are checked: its head, and the number with which the payload of some types begins. */
static size_t checked_length(const uint8_t *frame)
{
    int has_number =
        (frame[3] == NGHTTP2_WINDOW_UPDATE || frame[3] == NGHTTP2_PRIORITY) && http2_number_at(frame, 3) >= 4;
    return HTTP2_FRAME_HEAD + (has_number ? 4 : 0);
}

/* That number, without its reserved bit. Frames that are too short for one are errors, which libnghttp2 finds. */
static uint32_t first_number(const uint8_t *frame)
{
    return checked_length(frame) > HTTP2_FRAME_HEAD ? http2_number_at(frame + HTTP2_FRAME_HEAD, 4) & INT32_MAX
                                                    : UINT32_MAX;
}

/* Whether this is a WINDOW_UPDATE by 0, an error (RFC 9113, section 6.9). libnghttp2 detects it only on open
   streams. */
static int is_empty_update(const uint8_t *frame)
{
    return frame[3] == NGHTTP2_WINDOW_UPDATE && first_number(frame) == 0;
}

/* Must libnghttp2 process the earlier frames before this one is checked, because the check depends on which streams are
   open? */
static int needs_order(const http2_connection *connection, const uint8_t *frame)
{
    uint8_t type = frame[3];
    return type == NGHTTP2_DATA || type == NGHTTP2_PRIORITY || type == NGHTTP2_RST_STREAM || is_empty_update(frame) ||
           (type == NGHTTP2_HEADERS && (int32_t)(http2_number_at(frame + 5, 4) & INT32_MAX) <= connection->newest);
}

/* Whether a WINDOW_UPDATE gives back bytes that were sent. A client that reads little at a time sends two for each
 * time, and each is due to bytes that were sent before. What the client gives beyond that costs, and so does a
 * handful of bytes. */
static int gives_back(http2_connection *connection, int32_t id, uint32_t increment)
{
    uint64_t *lent = &connection->lent[id == 0 ? HTTP2_LENT_BY_CONNECTION : HTTP2_LENT_BY_STREAMS];
    if (increment < RETURN_MIN || increment > *lent)
        return 0;
    *lent -= increment;
    return 1;
}

static int is_useless(http2_connection *connection, const uint8_t *frame, int32_t id)
{
    uint8_t flags = frame[4];
    switch (frame[3]) {
    case NGHTTP2_HEADERS:
        return 0;
    case NGHTTP2_DATA:
        return http2_number_at(frame, 3) == 0 && !(flags & NGHTTP2_FLAG_END_STREAM);
    case NGHTTP2_SETTINGS:
    case NGHTTP2_PING:
        return !(flags & NGHTTP2_FLAG_ACK);
    case NGHTTP2_WINDOW_UPDATE:
        return !gives_back(connection, id, first_number(frame));
    default:
        return 1;
    }
}

/* A stream must not depend on itself (RFC 7540, section 5.3.1). RFC 9113 has dropped the rule, but the error is the
   client's. */
static void check_priority(http2_connection *connection, int32_t id, const uint8_t *frame)
{
    if (id == 0 || first_number(frame) == (uint32_t)id)
        http2_violate(connection, NGHTTP2_PROTOCOL_ERROR);
}

/* The client cancels a request. That is no waste if there is an answer already. */
static void note_cancelled(http2_connection *connection, int32_t id)
{
    http_stream *stream = nghttp2_session_get_stream_user_data(connection->session, id);
    if (stream == NULL || stream->answer_state != HTTP_UNANSWERED || stream->has_failed)
        return;
    http2_obey(connection, http_conduct_cancel(&connection->streams.conduct, &connection->settings->allowances,
                                               &stream->cancellation, stream->is_taken, connection->engine.now));
}

/* `frame`: at least the bytes that are checked. */
static void begin_frame(http2_connection *connection, const uint8_t *frame)
{
    uint8_t type = frame[3];
    int32_t id = (int32_t)(http2_number_at(frame + 5, 4) & INT32_MAX);
    connection->payload_left = http2_number_at(frame, 3);
    if (type == NGHTTP2_PRIORITY)
        check_priority(connection, id, frame);
    if (type == NGHTTP2_RST_STREAM) {
        remember_cancelled(&connection->memory, id);
        note_cancelled(connection, id);
    }
    if (is_empty_update(frame) && id != 0 && id <= connection->newest &&
        nghttp2_session_find_stream(connection->session, id) == NULL)
        http2_violate(connection, NGHTTP2_PROTOCOL_ERROR);
    if (type == NGHTTP2_HEADERS && id > connection->newest) {
        connection->newest = id;
    } else if ((type == NGHTTP2_HEADERS || type == NGHTTP2_DATA) && id % 2 == 1 &&
               nghttp2_session_find_stream(connection->session, id) == NULL) {
        uint32_t code = judge_closed(connection, id, type == NGHTTP2_HEADERS);
        if (is_cancelled(&connection->memory, id))
            refuse_behind_reset(connection, id);
        else if (code != NGHTTP2_NO_ERROR)
            http2_violate(connection, code);
    }
    if (is_useless(connection, frame, id))
        http2_obey(connection, http_conduct_useless(&connection->streams.conduct, &connection->settings->allowances, 1,
                                                    connection->engine.now));
}

/* libnghttp2 has failed. The default is for clients that cause too long a queue of acknowledgements. */
static void note_failure(http2_connection *connection, ssize_t result)
{
    switch (result) {
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
        http2_violate(connection, NGHTTP2_PROTOCOL_ERROR);
        break;
    case NGHTTP2_ERR_NOMEM:
        http2_violate(connection, NGHTTP2_INTERNAL_ERROR);
        break;
    case TOO_MANY_CONTINUATIONS:
        http2_exceed(connection, HTTP_LIMIT_HEADS);
        break;
    default:
        http2_exceed(connection, HTTP_LIMIT_FRAMES);
    }
}

static void give(http2_connection *connection, const uint8_t *bytes, size_t length)
{
    if (length == 0 || connection->has_failed || connection->violation != 0)
        return;
    ssize_t result = nghttp2_session_mem_recv(connection->session, bytes, length);
    if (result < 0 && connection->violation == 0)
        note_failure(connection, result);
}

/* Keeps the beginning of a frame of which not all that is checked has arrived. Returns how many bytes it took. */
static size_t keep_head(http2_connection *connection, const uint8_t *bytes, size_t left)
{
    size_t wanted = connection->head_length < HTTP2_FRAME_HEAD ? HTTP2_FRAME_HEAD : checked_length(connection->head);
    size_t count = wanted - connection->head_length;
    count = count < left ? count : left;
    memcpy(connection->head + connection->head_length, bytes, count);
    connection->head_length += (uint8_t)count;
    return count;
}

static void give_kept_head(http2_connection *connection)
{
    size_t length = connection->head_length;
    if (length < HTTP2_FRAME_HEAD || length < checked_length(connection->head))
        return;
    connection->head_length = 0;
    begin_frame(connection, connection->head);
    connection->payload_left -= (uint32_t)(length - HTTP2_FRAME_HEAD);
    give(connection, connection->head, length);
}

void http2_give_frames(http2_connection *connection, const uint8_t *bytes, size_t length)
{
    size_t given = 0, at = 0;
    while (at < length && !connection->has_failed && connection->violation == 0) {
        size_t left = length - at;
        if (connection->payload_left > 0) {
            size_t count = left < connection->payload_left ? left : connection->payload_left;
            connection->payload_left -= (uint32_t)count;
            at += count;
        } else if (connection->head_length > 0 || left < HTTP2_FRAME_HEAD || left < checked_length(bytes + at)) {
            give(connection, bytes + given, at - given);
            given = at += keep_head(connection, bytes + at, left);
            give_kept_head(connection);
        } else {
            if (needs_order(connection, bytes + at)) {
                give(connection, bytes + given, at - given);
                given = at;
            }
            begin_frame(connection, bytes + at);
            at += HTTP2_FRAME_HEAD;
        }
    }
    give(connection, bytes + given, length - given);
}
