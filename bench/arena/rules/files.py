"""/static/NAME: files of a folder, with their types, and compressed if the client accepts it."""

from .. import asking, codings, dataset
from . import Broken, equal, expect, media_type, rule

ACCEPTED = "Accept-Encoding: br;q=1, gzip;q=0.8"


def _typed(answer, name):
    equal(answer.status, 200, f"the status of {name}")
    wanted = dataset.TYPES[name.rsplit(".", 1)[1]]
    expect(media_type(answer) in wanted, f"the content type of {name} is {media_type(answer)}, not {' or '.join(sorted(wanted))}")


@rule("GET /static/NAME answers with the bytes and the type of each of the twenty files", "static")
def plain(doors):
    for name in dataset.STATIC:
        answer = asking.http1(doors.http, f"/static/{name}")
        _typed(answer, name)
        expect(answer.body == dataset.content(name), f"{name} has other bytes")


def _decoded(answer, name):
    _typed(answer, name)
    coding = answer.fields.get("content-encoding", "")
    try:
        found = codings.plain(coding, answer.body)
    except (ValueError, OSError) as error:
        raise Broken(f"{name} does not decode: {error}") from None
    expect(found == dataset.content(name), f"{name} decodes to other bytes")
    return coding


@rule("a file in a coding that the client accepts decodes to the same bytes", "static", brief=True)
def accepted(doors):
    found = {name: _decoded(asking.http1(doors.http, f"/static/{name}", fields=[ACCEPTED]), name) for name in dataset.STATIC}
    compressed = [coding for coding in found.values() if coding]
    return f"{len(compressed)} of {len(found)} compressed" + (f", by {' and '.join(sorted(set(compressed)))}" if compressed else "")


@rule("a file that does not exist, or lies outside of the folder, is not found", "static")
def missing(doors):
    equal(asking.http1(doors.http, "/static/nothing.txt").status, 404, "the status")
    outside = asking.http1(doors.http, "/static/../dataset.json").status
    expect(outside != 200, "a file outside of the folder is served")


@rule("GET /static/NAME by HTTP/2 over TLS answers the same", "static-h2", brief=True)
def http2(doors):
    for name in ("reset.css", "app.js", "manifest.json", "hero.webp"):
        answer = asking.http2(doors.url("h2", f"/static/{name}"), "--header", ACCEPTED)
        equal(answer.version, "2", "the version of HTTP")
        _decoded(answer, name)


@rule("a file that does not exist is not found by HTTP/2 either", "static-h2")
def http2_missing(doors):
    equal(asking.http2(doors.url("h2", "/static/nothing.txt")).status, 404, "the status")
