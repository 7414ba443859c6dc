/*
 * http_names.c - look-up of known field names and tokens.
 */
#include "http_names.h"

#include <string.h>

/* clang-format off */
static const char *const texts[HTTP_NAME_COUNT] = {
    "",
#define TEXT(name, text) text,
    HTTP_NAMES(TEXT)
#undef TEXT
};
/* clang-format on */

const char *http_name_text(int name)
{
    return name >= 0 && name < HTTP_NAME_COUNT ? texts[name] : "";
}

/*
 * Compares `size` bytes: 0 if they are equal without regard to the case of letters. Bit 5 is ignored. That also makes
 * 0x0D equal to "-" and 0x10 to 0x19 equal to digits, but those are not token characters.
 */
static inline __attribute__((always_inline)) uint64_t difference(const uint8_t *bytes, const char *text, size_t size)
{
    uint64_t left = 0, right = 0;
    memcpy(&left, bytes, size);
    memcpy(&right, text, size);
    return (left ^ right) & ~(uint64_t)0x2020202020202020u;
}

/* Compares four words, which may overlap or be the same. The length, 2 to 32, is a constant wherever this is
   inlined. */
static inline __attribute__((always_inline)) int same_folded(const uint8_t *bytes, const char *text, size_t length)
{
    size_t word = length >= 8 ? 8 : length >= 4 ? 4 : 2, last = length - word;
    size_t second = last > 8 ? 8 : 0, third = last > 16 ? 16 : 0;
    return (difference(bytes, text, word) | difference(bytes + second, text + second, word) |
            difference(bytes + third, text + third, word) | difference(bytes + last, text + last, word)) == 0;
}

http_name http_name_find(const uint8_t *name, size_t length)
{
#define TRY(id, text)                             \
    if (same_folded(name, text, sizeof text - 1)) \
        return HTTP_NAME_##id;
#define GROUP(number) \
    case number:      \
        HTTP_NAMES_##number(TRY) break;
    switch (length) {
        /* clang-format off */
        GROUP(2) GROUP(3) GROUP(4) GROUP(5) GROUP(6) GROUP(7) GROUP(8) GROUP(9) GROUP(10) GROUP(11) GROUP(12)
        GROUP(13) GROUP(14) GROUP(15) GROUP(16) GROUP(17) GROUP(18) GROUP(19) GROUP(20) GROUP(21) GROUP(22)
        GROUP(24) GROUP(25) GROUP(27) GROUP(29) GROUP(30)
    default:
        break;
    }
/* clang-format on */
#undef GROUP
#undef TRY
    return HTTP_NAME_OTHER;
}

int http_same_token(const uint8_t *bytes, size_t length, const char *text)
{
    if (strlen(text) != length)
        return 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = bytes[i];
        if (byte >= 'A' && byte <= 'Z')
            byte = (uint8_t)(byte | 0x20);
        if (byte != (uint8_t)text[i])
            return 0;
    }
    return 1;
}

static inline int is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

int http_list_next(const uint8_t *value, size_t length, size_t *position, size_t *start, size_t *element_length)
{
    size_t at = *position;
    while (at < length && (value[at] == ',' || is_blank(value[at])))
        at++;
    if (at == length) {
        *position = at;
        return 0;
    }
    *start = at;
    while (at < length && value[at] != ',')
        at++;
    *position = at;
    while (is_blank(value[at - 1]))
        at--;
    *element_length = at - *start;
    return 1;
}

unsigned http_connection_tokens(const uint8_t *value, size_t length)
{
    unsigned tokens = 0;
    size_t position = 0, start, element_length;
    while (http_list_next(value, length, &position, &start, &element_length)) {
        if (http_same_token(value + start, element_length, "close"))
            tokens |= HTTP_TOKEN_CLOSE;
        else if (http_same_token(value + start, element_length, "keep-alive"))
            tokens |= HTTP_TOKEN_KEEP_ALIVE;
        else
            tokens |= HTTP_TOKEN_OTHER;
    }
    return tokens;
}
