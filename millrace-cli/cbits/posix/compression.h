/*
 * compression.h - one interface to the encoders of zlib, brotli and zstd. Must not know: GHC, sockets.
 *
 * An encoder takes bytes in pieces and gives compressed bytes in pieces. It belongs to one thread at a time. No function blocks;
 * a step takes as long as its piece of input needs, except that brotli collects input and may encode megabytes of it in one step.
 */
#ifndef MILLRACE_COMPRESSION_H
#define MILLRACE_COMPRESSION_H

#include <stddef.h>
#include <stdint.h>

struct compression_encoder;

enum compression_result {
    COMPRESSION_WANTS_MORE, /* call it again, with more input or another output buffer */
    COMPRESSION_ENDED,      /* all output of the last piece was given */
    COMPRESSION_FAILED
};

enum compression_piece { COMPRESSION_MIDDLE, COMPRESSION_LAST };

/* For content of this many bytes. NULL if there is no memory. */
struct compression_encoder *compression_new_gzip(uint64_t size);
struct compression_encoder *compression_new_brotli(uint64_t size);
struct compression_encoder *compression_new_zstd(uint64_t size);

/*
 * Takes some of the input and writes up to `capacity` bytes of output. *taken and *given are the numbers of bytes. After the last piece
 * it must be called until it returns COMPRESSION_ENDED, with what was not taken. Nothing may be called but free after a failure.
 */
enum compression_result compression_step(struct compression_encoder *encoder, enum compression_piece piece,
                                         const uint8_t *input, size_t length, uint8_t *output, size_t capacity,
                                         size_t *taken, size_t *given);

void compression_free(struct compression_encoder *encoder);

#endif
