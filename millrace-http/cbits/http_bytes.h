/*
 * http_bytes.h - classes of bytes, shared by all that scans a message. Must not know: requests, responses.
 */
#ifndef HTTP_BYTES_H
#define HTTP_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HTTP_BYTE_TOKEN     1u /* tchar, RFC 9110, section 5.6.2 */
#define HTTP_BYTE_TARGET    2u /* visible ASCII but "#": browsers leave some characters unescaped against RFC 3986 */
#define HTTP_BYTE_VALUE     4u /* field-vchar, SP and HTAB, RFC 9110, section 5.5 */
#define HTTP_BYTE_HOST      8u /* the characters of a reg-name or an IP literal except "%", RFC 3986, section 3.2.2 */
#define HTTP_BYTE_HEX       16u
#define HTTP_BYTE_NON_ASCII 32u

extern const uint8_t http_byte_classes[256];

static inline int http_byte_is(uint8_t byte, unsigned class)
{
    return (http_byte_classes[byte] & class) != 0;
}

/* Returns the first byte from `at` on that is not of the class; `end` if all are. It checks four at a time, which
 * halves the cost per byte. */
static inline const uint8_t *http_skip_class(const uint8_t *at, const uint8_t *end, unsigned class)
{
    for (; end - at >= 4; at += 4) {
        if (!http_byte_is(at[0], class))
            return at;
        if (!http_byte_is(at[1], class))
            return at + 1;
        if (!http_byte_is(at[2], class))
            return at + 2;
        if (!http_byte_is(at[3], class))
            return at + 3;
    }
    while (at < end && http_byte_is(*at, class))
        at++;
    return at;
}

/* Whether these bytes are a token (RFC 9110, section 5.6.2). */
int http_is_token(const uint8_t *bytes, size_t size);

/* Whether these bytes may be the value of a field (RFC 9110, section 5.5). */
int http_is_field_value(const uint8_t *bytes, size_t size);

/* Returns the first byte from `at` on that is not allowed in a field value; `end` if there is none. Reads nothing
 * beyond `end`. */
static inline const uint8_t *http_skip_value(const uint8_t *at, const uint8_t *end)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    while (end - at >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        uint64_t below_space = (word - ones * 0x20) & ~word & highs;
        uint64_t not_delete = word ^ (ones * 0x7f);
        uint64_t is_delete = (not_delete - ones) & ~not_delete & highs;
        uint64_t found = below_space | is_delete;
        if (!found) {
            at += 8;
            continue;
        }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        /* Use only the first mark: a borrow of the subtraction may mark later bytes wrongly. */
        at += __builtin_ctzll(found) / 8;
#else
        while (http_byte_is(*at, HTTP_BYTE_VALUE) && *at != '\t')
            at++;
#endif
        if (*at != '\t')
            return at;
        at++;
    }
    return http_skip_class(at, end, HTTP_BYTE_VALUE);
}

#endif
