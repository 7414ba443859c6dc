/* http_authority.c - checks the authority of a URI. */
#include "http_authority.h"

#include "http_bytes.h"

#define PORT_MAX 65535u
#define GROUPS   8 /* of an IPv6 address */

static size_t count_class(const uint8_t *bytes, size_t length, unsigned class)
{
    return (size_t)(http_skip_class(bytes, bytes + length, class) - bytes);
}

/* Four numbers from 0 to 255, without leading zeros (RFC 3986, section 3.2.2). */
static int is_ipv4(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        unsigned value = 0, digits = 0;
        for (; at < length && bytes[at] >= '0' && bytes[at] <= '9' && digits < 3; at++, digits++)
            value = 10 * value + (bytes[at] - '0');
        if (digits == 0 || value > 255 || (digits > 1 && bytes[at - digits] == '0'))
            return 0;
        if (part < 3 && (at == length || bytes[at++] != '.'))
            return 0;
    }
    return at == length;
}

/* A "::" (gap) may occur once, and stands for one or more groups. */
static int has_all_groups(int groups, int gaps)
{
    return gaps == 0 ? groups == GROUPS : gaps == 1 && groups < GROUPS;
}

/* Groups of up to four hexadecimal digits between colons; "::", once, stands for one or more groups of zeros. */
static int is_ipv6(const uint8_t *bytes, size_t length)
{
    int groups = 0, gaps = 0;
    size_t at = 0;
    if (length >= 2 && bytes[0] == ':' && bytes[1] == ':') {
        gaps = 1;
        at = 2;
    }
    while (at < length) {
        size_t digits = count_class(bytes + at, length - at, HTTP_BYTE_HEX);
        if (at + digits < length && bytes[at + digits] == '.') {
            groups += 2;
            return is_ipv4(bytes + at, length - at) && has_all_groups(groups, gaps);
        }
        if (digits == 0 || digits > 4)
            return 0;
        groups++;
        at += digits;
        if (at == length)
            break;
        if (bytes[at++] != ':' || at == length)
            return 0;
        if (bytes[at] == ':') {
            gaps++;
            at++;
        }
    }
    return has_all_groups(groups, gaps);
}

/* "v" 1*HEXDIG "." and characters of a host or colons. */
static int is_future_address(const uint8_t *bytes, size_t length)
{
    if (length == 0 || (bytes[0] | 0x20) != 'v')
        return 0;
    size_t at = 1 + count_class(bytes + 1, length - 1, HTTP_BYTE_HEX);
    if (at == 1 || at + 1 >= length || bytes[at] != '.')
        return 0;
    for (at++; at < length; at++)
        if (bytes[at] != ':' && !http_byte_is(bytes[at], HTTP_BYTE_HOST))
            return 0;
    return 1;
}

/* The length of the host at the start, 0 if there is none. */
static size_t host_length(const uint8_t *bytes, size_t length)
{
    if (length > 0 && bytes[0] == '[') {
        const uint8_t *end = memchr(bytes, ']', length);
        if (end == NULL)
            return 0;
        size_t inside = (size_t)(end - bytes) - 1;
        return is_ipv6(bytes + 1, inside) || is_future_address(bytes + 1, inside) ? inside + 2 : 0;
    }
    size_t at = count_class(bytes, length, HTTP_BYTE_HOST);
    while (at < length && bytes[at] == '%') {
        if (length - at < 3 || count_class(bytes + at + 1, 2, HTTP_BYTE_HEX) < 2)
            return 0;
        at += 3;
        at += count_class(bytes + at, length - at, HTTP_BYTE_HOST);
    }
    return at;
}

static int is_authority(const uint8_t *bytes, size_t length, unsigned port_min)
{
    size_t at = host_length(bytes, length);
    if (at == 0)
        return 0;
    if (at == length)
        return port_min == 0;
    if (bytes[at++] != ':')
        return 0;
    unsigned port = 0;
    for (; at < length; at++) {
        if (bytes[at] < '0' || bytes[at] > '9')
            return 0;
        port = 10 * port + (bytes[at] - '0');
        if (port > PORT_MAX)
            return 0;
    }
    return port >= port_min;
}

int http_authority_is_valid(const uint8_t *bytes, size_t length)
{
    return is_authority(bytes, length, 0);
}

int http_authority_is_target(const uint8_t *bytes, size_t length)
{
    return is_authority(bytes, length, 1);
}
