/*  http3_frames.c - follows the frames of a request stream beside libnghttp3, and counts what it does not report: field
 * lines that it leaves out, and a stream that ends before its head. Must not know: GHC, sockets, the clock, libnghttp3.
 *
 * libnghttp3 drops a field with forbidden bytes without a word, and RFC 9114 (sections 4.2 and 10.3) calls such a
 * message malformed. The lines of a field section can be counted without the QPACK table (RFC 9204, section 4.5). So a
 * dropped field is one that was counted here, and that libnghttp3 has not reported.
 */
#include "http3_frames.h"

/* An integer of QPACK continues to grow below this. libnghttp3 refuses lengths far below. */
#define LENGTH_SHIFT_MAX 28u

#define FRAME_DATA    0u
#define FRAME_HEADERS 1u

/* ------------------------------------------------------------------------------------------------------------------
 * Integers */

/* Takes a byte of an integer of QUIC (RFC 9000, section 16). Returns whether it is complete. */
static int take_number(http3_frames *frames, uint8_t byte)
{
    if (frames->more == 0) {
        frames->more = (uint8_t)(1u << (byte >> 6));
        frames->value = byte & 0x3f;
    } else {
        frames->value = frames->value << 8 | byte;
    }
    return --frames->more == 0;
}

/* Takes the first byte of an integer of QPACK. `bits` of that byte belong to it (RFC 7541, section 5.1). Returns
 * whether it is complete. */
static int take_prefix(http3_frames *frames, uint8_t byte, unsigned bits)
{
    uint8_t most = (uint8_t)((1u << bits) - 1);
    frames->value = byte & most;
    frames->more = 0;
    return frames->value < most;
}

/* Takes another byte of it. Returns whether it is complete. */
static int take_continuation(http3_frames *frames, uint8_t byte)
{
    if (frames->more < LENGTH_SHIFT_MAX) {
        frames->value += (uint64_t)(byte & 0x7f) << frames->more;
        frames->more += 7;
    } else if ((byte & 0x7f) != 0) {
        frames->value = UINT32_MAX;
    }
    return !(byte & 0x80);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Field sections */

static http3_part end_line(http3_frames *frames)
{
    frames->lines[frames->section]++;
    return HTTP3_PART_LINE;
}

static http3_part begin_name(const http3_frames *frames)
{
    return frames->value > 0 ? HTTP3_PART_NAME : HTTP3_PART_VALUE_LENGTH;
}

static http3_part begin_value(http3_frames *frames)
{
    return frames->value > 0 ? HTTP3_PART_VALUE : end_line(frames);
}

static http3_part begin_line(http3_frames *frames, uint8_t byte)
{
    if (byte & 0x80) /* an entry of a table */
        return take_prefix(frames, byte, 6) ? end_line(frames) : HTTP3_PART_ENTRY;
    if (byte & 0x40) /* an entry's name, and a value */
        return take_prefix(frames, byte, 4) ? HTTP3_PART_VALUE_LENGTH : HTTP3_PART_ENTRY_NAME;
    if (byte & 0x20) /* a name and a value */
        return take_prefix(frames, byte, 3) ? begin_name(frames) : HTTP3_PART_NAME_LENGTH;
    if (byte & 0x10) /* an entry inserted behind the base */
        return take_prefix(frames, byte, 4) ? end_line(frames) : HTTP3_PART_ENTRY;
    return take_prefix(frames, byte, 3) ? HTTP3_PART_VALUE_LENGTH : HTTP3_PART_ENTRY_NAME;
}

static http3_part take_section_byte(http3_frames *frames, uint8_t byte)
{
    switch (frames->part) {
    case HTTP3_PART_INSERT_COUNT:
        return take_prefix(frames, byte, 8) ? HTTP3_PART_BASE : HTTP3_PART_INSERT_COUNT_REST;
    case HTTP3_PART_INSERT_COUNT_REST:
        return take_continuation(frames, byte) ? HTTP3_PART_BASE : frames->part;
    case HTTP3_PART_BASE:
        return take_prefix(frames, byte, 7) ? HTTP3_PART_LINE : HTTP3_PART_BASE_REST;
    case HTTP3_PART_BASE_REST:
        return take_continuation(frames, byte) ? HTTP3_PART_LINE : frames->part;
    case HTTP3_PART_ENTRY:
        return take_continuation(frames, byte) ? end_line(frames) : frames->part;
    case HTTP3_PART_ENTRY_NAME:
        return take_continuation(frames, byte) ? HTTP3_PART_VALUE_LENGTH : frames->part;
    case HTTP3_PART_NAME_LENGTH:
        return take_continuation(frames, byte) ? begin_name(frames) : frames->part;
    case HTTP3_PART_VALUE_LENGTH:
        return take_prefix(frames, byte, 7) ? begin_value(frames) : HTTP3_PART_VALUE_LENGTH_REST;
    case HTTP3_PART_VALUE_LENGTH_REST:
        return take_continuation(frames, byte) ? begin_value(frames) : frames->part;
    default:
        return begin_line(frames, byte);
    }
}

/* Skips what has arrived of a name or a value. */
static size_t skip_string(http3_frames *frames, size_t length)
{
    size_t skipped = length < frames->value ? length : (size_t)frames->value;
    frames->value -= skipped;
    if (frames->value == 0)
        frames->part = frames->part == HTTP3_PART_NAME ? HTTP3_PART_VALUE_LENGTH : end_line(frames);
    return skipped;
}

/* Returns the length of what it has taken: at most HTTP3_SLICE_LINES lines. */
static size_t take_section(http3_frames *frames, const uint8_t *bytes, size_t length)
{
    uint32_t most = frames->lines[frames->section] + HTTP3_SLICE_LINES;
    size_t at = 0;
    if (length > frames->left)
        length = (size_t)frames->left;
    while (at < length && frames->lines[frames->section] < most) {
        if (frames->part == HTTP3_PART_NAME || frames->part == HTTP3_PART_VALUE)
            at += skip_string(frames, length - at);
        else
            frames->part = take_section_byte(frames, bytes[at++]);
    }
    frames->left -= at;
    if (frames->left == 0) {
        frames->part = HTTP3_PART_TYPE;
        frames->more = 0;
        frames->sections_ended++;
    }
    return at;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Frames */

static http3_part begin_frame(http3_frames *frames)
{
    frames->left = frames->length = frames->value;
    switch (frames->type) {
    case FRAME_DATA:
        frames->body = frames->value < UINT64_MAX - frames->body ? frames->body + frames->value : UINT64_MAX;
        break;
    case FRAME_HEADERS:
        frames->section = frames->sections_ended == 0 ? HTTP_SECTION_HEAD : HTTP_SECTION_TRAILERS;
        if (frames->left > 0)
            return HTTP3_PART_INSERT_COUNT;
        frames->sections_ended++;
        break;
    default:
        break;
    }
    return frames->left > 0 ? HTTP3_PART_OTHER : HTTP3_PART_TYPE;
}

static size_t skip_payload(http3_frames *frames, size_t length)
{
    size_t skipped = length < frames->left ? length : (size_t)frames->left;
    frames->left -= skipped;
    if (frames->type == FRAME_DATA)
        frames->passed += skipped;
    if (frames->left == 0)
        frames->part = HTTP3_PART_TYPE;
    return skipped;
}

int http3_frames_in_section(const http3_frames *frames)
{
    return frames->part >= HTTP3_PART_INSERT_COUNT;
}

int http3_frames_is_between(const http3_frames *frames)
{
    return frames->part == HTTP3_PART_TYPE && frames->more == 0;
}

size_t http3_frames_follow(http3_frames *frames, const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (at < length)
        switch (frames->part) {
        case HTTP3_PART_TYPE:
            if (take_number(frames, bytes[at++])) {
                frames->type = frames->value;
                frames->part = HTTP3_PART_LENGTH;
            }
            break;
        case HTTP3_PART_LENGTH:
            if (take_number(frames, bytes[at++]))
                frames->part = begin_frame(frames);
            break;
        case HTTP3_PART_OTHER:
            at += skip_payload(frames, length - at);
            break;
        default:
            return at + take_section(frames, bytes + at, length - at);
        }
    return at;
}
