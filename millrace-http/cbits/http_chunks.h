/*
 * http_chunks.h - the chunked transfer coding (RFC 9112, section 7.1), decoded in place.
 *
 * Resumable like http_parser: any split of the input gives the same data and the same errors. Extensions are checked
 * and dropped, within limits, and so are trailers unless the caller reads them. For requests and for responses. Must
 * not know: sockets, requests.
 */
#ifndef HTTP_CHUNKS_H
#define HTTP_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

#include "http_error.h"

#define HTTP_CHUNKS_END           (-100) /* not an http_error */
#define HTTP_CHUNK_DIGITS_MAX     16u    /* digits of one chunk size, leading zeros included */
#define HTTP_CHUNK_EXTENSIONS_MAX 4096u  /* by how much the bytes of extensions may exceed those of data */
#define HTTP_CHUNK_TRAILER_MAX    8192u  /* bytes of the trailer section */

typedef struct http_chunks {
    uint64_t remaining; /* bytes of the current chunk that were not returned yet */
    uint64_t consumed;  /* result: bytes of framing that http_chunks_next has skipped */
    uint64_t foreseen;  /* result: bytes of data that http_chunks_foresee has found */
    uint32_t digits;
    uint32_t extensions;
    uint32_t trailer;
    uint32_t state;
    uint32_t leaves_trailers;
} http_chunks;

/* What happens to the trailer section. */
typedef enum http_chunks_trailers {
    HTTP_CHUNKS_TRAILERS_SKIPPED,
    /* The body ends before them: the rest of the input is the lines of trailers and a blank line. */
    HTTP_CHUNKS_TRAILERS_LEFT
} http_chunks_trailers;

void http_chunks_init(http_chunks *chunks, http_chunks_trailers trailers);

/*
 * Reads `length` bytes of input. Skips framing, stores its length in chunks->consumed, and returns
 *   > 0   the number of data bytes that come next in the input (at most what is there): the caller must take them all;
 *   0     everything was consumed, more input is needed;
 *   HTTP_CHUNKS_END   the body has ended. The rest of the input belongs to the next message, or is the trailers;
 *   or an http_error.
 */
int64_t http_chunks_next(http_chunks *chunks, const uint8_t *input, size_t length);

/*
 * The result of http_chunks_next after all data of this input has been taken: 0, HTTP_CHUNKS_END or an http_error.
 * Stores the size of that data in chunks->foreseen, at most INT64_MAX, including the whole last chunk.
 */
int64_t http_chunks_foresee(http_chunks *chunks, const uint8_t *input, size_t length);

#endif
