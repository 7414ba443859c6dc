/*
 * inflate.c - header blocks of HTTP/2, decoded for the tests' client by libnghttp2's HPACK alone.
 */
#include <nghttp2/nghttp2.h>
#include <stdint.h>
#include <string.h>

/* A decoder with the dynamic table that RFC 9113 begins with, or NULL. */
nghttp2_hd_inflater *inflate_new(void)
{
    nghttp2_hd_inflater *inflater = NULL;
    return nghttp2_hd_inflate_new(&inflater) == 0 ? inflater : NULL;
}

void inflate_free(nghttp2_hd_inflater *inflater)
{
    nghttp2_hd_inflate_del(inflater);
}

static size_t put(uint8_t *target, const nghttp2_nv *field)
{
    uint32_t lengths[2] = {(uint32_t)field->namelen, (uint32_t)field->valuelen};
    memcpy(target, lengths, sizeof lengths);
    memcpy(target + sizeof lengths, field->name, field->namelen);
    memcpy(target + sizeof lengths + field->namelen, field->value, field->valuelen);
    return sizeof lengths + field->namelen + field->valuelen;
}

/* Decodes one whole block. Writes for each field the lengths of its name and value, then both. Returns how many bytes
 * were written, -1 for a block that is malformed, or -2 if the target is too small. */
int64_t inflate_block(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t length, uint8_t *target,
                      size_t capacity)
{
    size_t written = 0;
    int flags = 0;
    do {
        nghttp2_nv field;
        ssize_t taken = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, length, 1);
        if (taken < 0)
            return -1;
        block += taken;
        length -= (size_t)taken;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            if (written + 8 + field.namelen + field.valuelen > capacity)
                return -2;
            written += put(target + written, &field);
        }
    } while (!(flags & NGHTTP2_HD_INFLATE_FINAL));
    nghttp2_hd_inflate_end_headers(inflater);
    return (int64_t)written;
}
