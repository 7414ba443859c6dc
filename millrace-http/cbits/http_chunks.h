/*
 * http_chunks.h - the chunked transfer coding (RFC 9112, section 7.1), decoded in place.
 *
 * Resumable like http_parser: any split of the input gives the same data and the same errors. Extensions and trailers
 * are checked and dropped, within limits. Must not know: sockets, requests.
 */
#ifndef HTTP_CHUNKS_H
#define HTTP_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

#include "http_error.h"

#define HTTP_CHUNKS_END           (-100) /* not an http_error */
#define HTTP_CHUNK_DIGITS_MAX     16u    /* digits of one chunk size, leading zeros included */
#define HTTP_CHUNK_EXTENSIONS_MAX 4096u  /* bytes of extensions beyond as many as there are of data */
#define HTTP_CHUNK_TRAILER_MAX    8192u  /* bytes of the trailer section */

typedef struct http_chunks {
    uint64_t remaining; /* bytes of the current chunk that were not returned yet */
    uint64_t consumed;  /* out: bytes of framing that http_chunks_next has passed */
    uint64_t foreseen;  /* out: bytes of data that http_chunks_foresee has seen or had announced */
    uint32_t digits;
    uint32_t extensions;
    uint32_t trailer;
    uint32_t state;
} http_chunks;

void http_chunks_init(http_chunks *chunks);

/*
 * Looks at `length` bytes of input. Passes framing, whose length it leaves in chunks->consumed, and returns
 *   > 0   that many bytes of data come next in the input (at most what is there): the caller takes them all;
 *   0     everything was consumed, more input is needed;
 *   HTTP_CHUNKS_END   the body is over, and what follows in the input belongs to the next request;
 *   or an http_error.
 */
int64_t http_chunks_next(http_chunks *chunks, const uint8_t *input, size_t length);

/*
 * The result of http_chunks_next after all data of this input has been taken: 0, HTTP_CHUNKS_END or an http_error.
 * Stores the size of that data in chunks->foreseen, at most INT64_MAX, including the whole last chunk.
 */
int64_t http_chunks_foresee(http_chunks *chunks, const uint8_t *input, size_t length);

#endif
