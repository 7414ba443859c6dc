/* http2_fields.h - the fields of http_response_fields.h in libnghttp2's form. Must not know: GHC, sockets, the
   clock. */
#ifndef HTTP2_FIELDS_H
#define HTTP2_FIELDS_H

#include <nghttp2/nghttp2.h>

#include "http_response_fields.h"

_Static_assert(sizeof(http_nv) == sizeof(nghttp2_nv) && offsetof(http_nv, name) == offsetof(nghttp2_nv, name) &&
                   offsetof(http_nv, value) == offsetof(nghttp2_nv, value) &&
                   offsetof(http_nv, name_length) == offsetof(nghttp2_nv, namelen) &&
                   offsetof(http_nv, value_length) == offsetof(nghttp2_nv, valuelen) &&
                   offsetof(http_nv, flags) == offsetof(nghttp2_nv, flags) &&
                   HTTP_NV_IS_LASTING == (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE),
               "the fields have libnghttp2's form");

static inline const nghttp2_nv *nv_of(const http_block *block)
{
    return (const nghttp2_nv *)block->fields;
}

#endif
