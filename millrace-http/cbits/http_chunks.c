/* http_chunks.c - the chunked transfer coding. */
#include "http_chunks.h"

#include "http_bytes.h"
#include "millrace_check.h"

enum state {
    SIZE,
    /* An extension: BWS ";" BWS name [ BWS "=" BWS value ] (RFC 9112, section 7.1.1). BWS, bad whitespace, must be
       accepted (RFC 9110, section 5.6.3). */
    BEFORE_SEMICOLON,
    BEFORE_NAME,
    NAME,
    AFTER_NAME,
    BEFORE_VALUE,
    VALUE,
    QUOTED,
    QUOTED_PAIR,
    AFTER_QUOTED,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    DONE
};

void http_chunks_init(http_chunks *chunks, http_chunks_trailers trailers)
{
    memset(chunks, 0, sizeof *chunks);
    chunks->leaves_trailers = trailers == HTTP_CHUNKS_TRAILERS_LEFT;
}

static unsigned digit_value(uint8_t byte)
{
    return byte <= '9' ? (unsigned)(byte - '0') : (unsigned)((byte | 0x20) - 'a' + 10);
}

static int64_t go_to(http_chunks *chunks, enum state next)
{
    chunks->state = next;
    return 0;
}

static int is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

/* Takes a byte that may follow a size, a name or a value. `blank` is the state after a blank. */
static int64_t take_delimiter(http_chunks *chunks, uint8_t byte, enum state blank)
{
    if (byte == '\r')
        return go_to(chunks, SIZE_LF);
    if (byte == ';')
        return go_to(chunks, BEFORE_NAME);
    return is_blank(byte) ? go_to(chunks, blank) : HTTP_ERROR_CHUNK;
}

static int64_t take_size(http_chunks *chunks, uint8_t byte)
{
    if (http_byte_is(byte, HTTP_BYTE_HEX)) {
        if (++chunks->digits > HTTP_CHUNK_DIGITS_MAX || chunks->remaining > (uint64_t)INT64_MAX >> 4)
            return HTTP_ERROR_CHUNK;
        chunks->remaining = chunks->remaining << 4 | digit_value(byte);
        return 0;
    }
    return chunks->digits == 0 ? HTTP_ERROR_CHUNK : take_delimiter(chunks, byte, BEFORE_SEMICOLON);
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): a case for each state, and each can be read alone */
static int64_t take_extension(http_chunks *chunks, uint8_t byte)
{
    int is_token = http_byte_is(byte, HTTP_BYTE_TOKEN), is_text = http_byte_is(byte, HTTP_BYTE_VALUE);
    if (++chunks->extensions > HTTP_CHUNK_EXTENSIONS_MAX)
        return HTTP_ERROR_LONG_EXTENSION;
    switch (chunks->state) {
    case BEFORE_SEMICOLON:
        return is_blank(byte) ? 0 : byte == ';' ? go_to(chunks, BEFORE_NAME) : HTTP_ERROR_CHUNK;
    case BEFORE_NAME:
        return is_blank(byte) ? 0 : is_token ? go_to(chunks, NAME) : HTTP_ERROR_CHUNK;
    case NAME:
        return is_token ? 0 : byte == '=' ? go_to(chunks, BEFORE_VALUE) : take_delimiter(chunks, byte, AFTER_NAME);
    case AFTER_NAME:
        return byte == '='    ? go_to(chunks, BEFORE_VALUE)
               : byte == '\r' ? HTTP_ERROR_CHUNK
                              : take_delimiter(chunks, byte, AFTER_NAME);
    case BEFORE_VALUE:
        return is_blank(byte) ? 0
               : byte == '"'  ? go_to(chunks, QUOTED)
               : is_token     ? go_to(chunks, VALUE)
                              : HTTP_ERROR_CHUNK;
    case VALUE:
        return is_token ? 0 : take_delimiter(chunks, byte, BEFORE_SEMICOLON);
    case QUOTED:
        if (byte == '"' || byte == '\\')
            return go_to(chunks, byte == '"' ? AFTER_QUOTED : QUOTED_PAIR);
        return is_text ? 0 : HTTP_ERROR_CHUNK;
    case QUOTED_PAIR:
        return is_text ? go_to(chunks, QUOTED) : HTTP_ERROR_CHUNK;
    default:
        return take_delimiter(chunks, byte, BEFORE_SEMICOLON);
    }
}

static int64_t take_trailer(http_chunks *chunks, uint8_t byte)
{
    if (byte == '\r' && chunks->state == TRAILER) {
        chunks->state = END_LF;
        return 0;
    }
    if (++chunks->trailer > HTTP_CHUNK_TRAILER_MAX)
        return HTTP_ERROR_LONG_TRAILER;
    switch (chunks->state) {
    case TRAILER:
        chunks->state = TRAILER_NAME;
        return http_byte_is(byte, HTTP_BYTE_TOKEN) ? 0 : HTTP_ERROR_FIELD;
    case TRAILER_NAME:
        if (byte == ':')
            chunks->state = TRAILER_VALUE;
        else if (!http_byte_is(byte, HTTP_BYTE_TOKEN))
            return HTTP_ERROR_FIELD;
        return 0;
    default:
        if (byte == '\r')
            chunks->state = TRAILER_LF;
        else if (!http_byte_is(byte, HTTP_BYTE_VALUE))
            return HTTP_ERROR_VALUE;
        return 0;
    }
}

/* Takes a LF and changes to the state `next`; any other byte is an error. */
static int64_t take_line_feed(http_chunks *chunks, uint8_t byte, enum state next)
{
    if (byte != '\n')
        return HTTP_ERROR_CHUNK;
    chunks->state = next;
    return 0;
}

static int64_t take(http_chunks *chunks, uint8_t byte)
{
    switch (chunks->state) {
    case SIZE:
        return take_size(chunks, byte);
    case SIZE_LF:
        chunks->digits = 0;
        chunks->extensions -= chunks->remaining < chunks->extensions ? (uint32_t)chunks->remaining : chunks->extensions;
        return take_line_feed(chunks, byte, chunks->remaining > 0 ? DATA : chunks->leaves_trailers ? DONE : TRAILER);
    case DATA_CR:
        chunks->state = DATA_LF;
        return byte == '\r' ? 0 : HTTP_ERROR_CHUNK;
    case DATA_LF:
        return take_line_feed(chunks, byte, SIZE);
    case TRAILER_LF:
        return take_line_feed(chunks, byte, TRAILER);
    case END_LF:
        return take_line_feed(chunks, byte, DONE);
    case TRAILER:
    case TRAILER_NAME:
    case TRAILER_VALUE:
        return take_trailer(chunks, byte);
    default:
        return take_extension(chunks, byte);
    }
}

int64_t http_chunks_next(http_chunks *chunks, const uint8_t *input, size_t length)
{
    size_t at = 0;
    int64_t result = 0;
    while (result == 0) {
        if (chunks->state == DONE) {
            result = HTTP_CHUNKS_END;
        } else if (at == length) {
            break;
        } else if (chunks->state == DATA) {
            MR_CHECK(chunks->remaining > 0); /* a result of 0 would ask for more input for ever */
            uint64_t here = length - at;
            uint64_t count = chunks->remaining < here ? chunks->remaining : here;
            chunks->remaining -= count;
            if (chunks->remaining == 0)
                chunks->state = DATA_CR;
            result = (int64_t)count;
        } else {
            result = take(chunks, input[at++]);
        }
    }
    chunks->consumed = at;
    return result;
}

int64_t http_chunks_foresee(http_chunks *chunks, const uint8_t *input, size_t length)
{
    http_chunks ahead = *chunks;
    size_t at = 0;
    uint64_t data = 0;
    int64_t result;
    do {
        result = http_chunks_next(&ahead, input + at, length - at);
        uint64_t here = result > 0 ? (uint64_t)result : 0;
        data += here;
        at += ahead.consumed + (size_t)here;
    } while (result > 0);
    data += ahead.remaining;
    chunks->foreseen = data < INT64_MAX ? data : INT64_MAX;
    return result;
}
