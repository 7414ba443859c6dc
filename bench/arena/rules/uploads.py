"""/upload: a body is read to its end and its bytes are counted."""

import random

from .. import asking
from . import equal, is_text, rule

SIZES = [512_000, 2 << 20, 10 << 20, 20 << 20]


def _count(doors, body, fields=(), wanted=None):
    answer = asking.http1(doors.http, "/upload", "POST", ["Content-Type: application/octet-stream", *fields], body)
    equal(answer.status, 200, "the status")
    equal(answer.text, str(len(body) if wanted is None else wanted), "the count")
    is_text(answer)


@rule("POST /upload answers with the number of bytes it was sent", "upload", brief=True)
def small(doors):
    for _ in range(2):
        _count(doors, random.randbytes(random.randint(1, 100)))


@rule("bytes that come in chunks, without a length, are counted as well", "upload")
def chunked(doors):
    parts = [random.randbytes(random.randint(1, 5000)) for _ in range(20)]
    _count(doors, asking.chunked(*parts), ["Transfer-Encoding: chunked"], sum(map(len, parts)))


@rule("uploads of 500 KB, 2, 10 and 20 MB are counted", "upload")
def large(doors):
    for size in SIZES:
        _count(doors, random.randbytes(size))
