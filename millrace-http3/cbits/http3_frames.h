/*  http3_frames.h - where a request stream is among its frames, and what was counted of them. Must not know: GHC,
 * sockets, the clock, libnghttp3.
 */
#ifndef HTTP3_FRAMES_H
#define HTTP3_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "http_request_head.h"

/* This many field lines are given to libnghttp3 at a time. It looks at this many at most after one that it drops: a
 * line takes one byte, and as much time as the entry of the table has bytes. */
#define HTTP3_SLICE_LINES 32u

/* The part of a frame that comes next. */
typedef enum http3_part {
    HTTP3_PART_TYPE, /* of a frame; must be zero */
    HTTP3_PART_LENGTH,
    HTTP3_PART_OTHER, /* a payload that is no field section */
    /* In a field section; _REST: of an integer that has begun. */
    HTTP3_PART_INSERT_COUNT,
    HTTP3_PART_INSERT_COUNT_REST,
    HTTP3_PART_BASE,
    HTTP3_PART_BASE_REST,
    HTTP3_PART_LINE,
    HTTP3_PART_ENTRY,      /* the rest of the number of an entry, which ends the line */
    HTTP3_PART_ENTRY_NAME, /* the same, before a value */
    HTTP3_PART_NAME_LENGTH,
    HTTP3_PART_NAME,
    HTTP3_PART_VALUE_LENGTH,
    HTTP3_PART_VALUE_LENGTH_REST,
    HTTP3_PART_VALUE
} http3_part;

/* Zeroed at first. */
typedef struct http3_frames {
    uint64_t length, left; /* bytes of the frame's payload; of these, bytes that have not arrived */
    uint64_t value;    /* of an integer, perhaps of its beginning; bytes of a name or a value that have not arrived */
    uint64_t type;     /* of the frame */
    uint64_t body;     /* bytes of the payloads of all DATA frames so far, as their lengths say */
    uint64_t passed;   /* of these, bytes that have arrived */
    uint32_t lines[2]; /* complete field lines, by http_section */
    uint32_t sections_ended; /* complete HEADERS frames */
    http3_part part;
    http_section section; /* of the latest HEADERS frame */
    uint8_t more;         /* bytes of an integer of QUIC that are missing; bits of an integer of QPACK that are there */
} http3_frames;

/* Follows the frames. Returns how many of the bytes may be given to libnghttp3 before the next call: a field section is
 * the last thing in them, and a part of it if it is long. */
size_t http3_frames_follow(http3_frames *frames, const uint8_t *bytes, size_t length);

/* Whether a HEADERS frame has begun, and not ended. */
int http3_frames_in_section(const http3_frames *frames);

/* Whether the latest frame is complete. */
int http3_frames_is_between(const http3_frames *frames);

#endif
