/*
 * compression.c - one interface to the encoders of zlib, brotli and zstd. Must not know: GHC, sockets.
 *
 * The levels are those whose time is worth it for a file that is compressed once and sent from memory many times: some
 * 20 to 60 MB a second.
 */
#include "compression.h"

#include <brotli/encode.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

/* zstd's window is 4 MiB at most at this level. Clients need not have more than 8 MiB for it (RFC 9659). */
enum { GZIP_LEVEL = 6, BROTLI_LEVEL = 5, ZSTD_LEVEL = 9 };

/* windowBits of zlib: 15 for a window of 32 KiB, and 16 more for gzip's format instead of zlib's. */
enum { GZIP_WINDOW = 15 + 16, GZIP_MEMORY_LEVEL = 8 };

enum kind { GZIP, BROTLI, ZSTD };

struct compression_encoder {
    enum kind kind;
    z_stream gzip;
    BrotliEncoderState *brotli;
    ZSTD_CCtx *zstd;
};

static struct compression_encoder *new_encoder(enum kind kind)
{
    struct compression_encoder *encoder = calloc(1, sizeof *encoder);
    if (encoder)
        encoder->kind = kind;
    return encoder;
}

struct compression_encoder *compression_new_gzip(uint64_t size)
{
    (void)size;
    struct compression_encoder *encoder = new_encoder(GZIP);
    if (encoder && deflateInit2(&encoder->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY_LEVEL,
                                Z_DEFAULT_STRATEGY) != Z_OK) {
        free(encoder);
        return NULL;
    }
    return encoder;
}

/* The smallest window that holds this many bytes, or the usual one. The client's decoder needs memory for it. */
static uint32_t brotli_window(uint64_t size)
{
    uint32_t bits = BROTLI_MIN_WINDOW_BITS;
    while (bits < BROTLI_DEFAULT_WINDOW && (UINT64_C(1) << bits) - 16 < size)
        bits++;
    return bits;
}

struct compression_encoder *compression_new_brotli(uint64_t size)
{
    struct compression_encoder *encoder = new_encoder(BROTLI);
    if (!encoder)
        return NULL;
    encoder->brotli = BrotliEncoderCreateInstance(NULL, NULL, NULL);
    if (!encoder->brotli || !BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_QUALITY, BROTLI_LEVEL) ||
        !BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_LGWIN, brotli_window(size)) ||
        !BrotliEncoderSetParameter(encoder->brotli, BROTLI_PARAM_SIZE_HINT,
                                   size < UINT32_MAX ? (uint32_t)size : UINT32_MAX)) {
        compression_free(encoder);
        return NULL;
    }
    return encoder;
}

struct compression_encoder *compression_new_zstd(uint64_t size)
{
    struct compression_encoder *encoder = new_encoder(ZSTD);
    if (!encoder)
        return NULL;
    encoder->zstd = ZSTD_createCCtx();
    if (!encoder->zstd || ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(encoder->zstd, size))) {
        compression_free(encoder);
        return NULL;
    }
    return encoder;
}

static enum compression_result step_gzip(z_stream *gzip, enum compression_piece piece, struct compression_step *step)
{
    uInt count = step->length < UINT_MAX ? (uInt)step->length : UINT_MAX;
    uInt space = step->capacity < UINT_MAX ? (uInt)step->capacity : UINT_MAX;
    gzip->next_in = (z_const Bytef *)step->input;
    gzip->avail_in = count;
    gzip->next_out = step->output;
    gzip->avail_out = space;
    int result = deflate(gzip, piece == COMPRESSION_LAST && count == step->length ? Z_FINISH : Z_NO_FLUSH);
    step->taken = count - gzip->avail_in;
    step->given = space - gzip->avail_out;
    if (result == Z_STREAM_END)
        return COMPRESSION_ENDED;
    /* Z_BUF_ERROR: there was nothing to do, which is no failure. */
    return result == Z_OK || result == Z_BUF_ERROR ? COMPRESSION_WANTS_MORE : COMPRESSION_FAILED;
}

static enum compression_result step_brotli(BrotliEncoderState *brotli, enum compression_piece piece,
                                           struct compression_step *step)
{
    const uint8_t *input = step->input;
    uint8_t *output = step->output;
    size_t left = step->length;
    size_t space = step->capacity;
    BrotliEncoderOperation operation = piece == COMPRESSION_LAST ? BROTLI_OPERATION_FINISH : BROTLI_OPERATION_PROCESS;
    if (!BrotliEncoderCompressStream(brotli, operation, &left, &input, &space, &output, NULL))
        return COMPRESSION_FAILED;
    step->taken = step->length - left;
    step->given = step->capacity - space;
    return BrotliEncoderIsFinished(brotli) ? COMPRESSION_ENDED : COMPRESSION_WANTS_MORE;
}

static enum compression_result step_zstd(ZSTD_CCtx *zstd, enum compression_piece piece, struct compression_step *step)
{
    ZSTD_inBuffer in = {.src = step->input, .size = step->length, .pos = 0};
    ZSTD_outBuffer out = {.size = step->capacity, .pos = 0};
    out.dst = step->output;
    size_t left = ZSTD_compressStream2(zstd, &out, &in, piece == COMPRESSION_LAST ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left))
        return COMPRESSION_FAILED;
    step->taken = in.pos;
    step->given = out.pos;
    return piece == COMPRESSION_LAST && left == 0 ? COMPRESSION_ENDED : COMPRESSION_WANTS_MORE;
}

enum compression_result compression_compress(struct compression_encoder *encoder, enum compression_piece piece,
                                             struct compression_step *step)
{
    step->taken = 0;
    step->given = 0;
    switch (encoder->kind) {
    case GZIP:
        return step_gzip(&encoder->gzip, piece, step);
    case BROTLI:
        return step_brotli(encoder->brotli, piece, step);
    case ZSTD:
        return step_zstd(encoder->zstd, piece, step);
    }
    return COMPRESSION_FAILED;
}

void compression_free(struct compression_encoder *encoder)
{
    if (!encoder)
        return;
    switch (encoder->kind) {
    case GZIP:
        (void)deflateEnd(&encoder->gzip);
        break;
    case BROTLI:
        BrotliEncoderDestroyInstance(encoder->brotli);
        break;
    case ZSTD:
        (void)ZSTD_freeCCtx(encoder->zstd);
        break;
    }
    free(encoder);
}
