/*
 * compression.h - one interface to the encoders of zlib, brotli and zstd. Must not know: GHC, sockets.
 *
 * An encoder takes bytes in pieces and gives compressed bytes in pieces. It belongs to one thread at a time. No
 * function blocks; a step takes as long as its piece of input needs, except that brotli collects input and may encode
 * megabytes of it in one step.
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

/* The memory of a step, and how much of it the step has used. */
struct compression_step {
    const uint8_t *input;
    size_t length;
    uint8_t *output;
    size_t capacity;
    size_t taken; /* bytes of the input */
    size_t given; /* bytes of the output */
};

/*
 * Takes some of the input and writes some output. After the last piece it must be called until it returns
 * COMPRESSION_ENDED, with the input that was not taken. After a failure only compression_free may be called.
 */
enum compression_result compression_compress(struct compression_encoder *encoder, enum compression_piece piece,
                                             struct compression_step *step);

void compression_free(struct compression_encoder *encoder);

#endif
