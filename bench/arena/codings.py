"""gzip and brotli, by zlib and by the library that curl and millrace-cli use as well.

Must not know requests.
"""

import ctypes
import ctypes.util
import gzip

QUALITY, WINDOW, GENERIC = 11, 22, 0
LIBRARIES = {"encode": "libbrotlienc.so.1", "decode": "libbrotlidec.so.1"}


def compressed(coding, content):
    """The bytes in a coding, "gzip" or "br", as small as it makes them. The same content always gives the same bytes."""
    if coding == "gzip":
        return gzip.compress(content, 9, mtime=0)
    size = ctypes.c_size_t(len(content) + 1024)
    target = ctypes.create_string_buffer(size.value)
    encode = ctypes.CDLL(LIBRARIES["encode"]).BrotliEncoderCompress
    if not encode(QUALITY, WINDOW, GENERIC, ctypes.c_size_t(len(content)), content, ctypes.byref(size), target):
        raise ValueError("brotli could not compress the content")
    return target.raw[:size.value]


def plain(coding, content, limit=1 << 24):
    """The bytes that a coding stands for; no coding ("" or "identity") stands for the bytes themselves."""
    if coding in ("", "identity"):
        return content
    if coding == "gzip":
        return gzip.decompress(content)
    if coding != "br":
        raise ValueError(f"the coding {coding} is none of gzip and br")
    size = ctypes.c_size_t(limit)
    target = ctypes.create_string_buffer(limit)
    decode = ctypes.CDLL(LIBRARIES["decode"]).BrotliDecoderDecompress
    if decode(ctypes.c_size_t(len(content)), content, ctypes.byref(size), target) != 1:
        raise ValueError("the content is not brotli")
    return target.raw[:size.value]
