"""/baseline11, /baseline2 and /pipeline: sums of numbers in the address and in the body, by every protocol."""

import random

from .. import asking
from . import Broken, equal, expect, is_text, rule

PATH = "/baseline11?a=13&b=42"
FORM = ["Content-Type: text/plain"]
BASELINE = ("baseline", "limited-conn")


def _sum(doors, wanted, path=PATH, method="GET", fields=(), body=b""):
    answer = asking.http1(doors.http, path, method, fields, body)
    equal(answer.status, 200, "the status")
    equal(answer.text, str(wanted))
    is_text(answer)


@rule("GET /baseline11 answers with the sum of a and b as text/plain", *BASELINE, brief=True)
def get(doors):
    _sum(doors, 55)


@rule("POST /baseline11 adds the number in a body with a length", *BASELINE, brief=True)
def post(doors):
    _sum(doors, 75, method="POST", fields=FORM, body=b"20")


@rule("POST /baseline11 adds the number in a body of chunks", *BASELINE, brief=True)
def post_chunked(doors):
    chunked = [*FORM, "Transfer-Encoding: chunked"]
    _sum(doors, 75, method="POST", fields=chunked, body=asking.chunked(b"20"))
    _sum(doors, 75, method="POST", fields=chunked, body=asking.chunked(b"2", b"0"))


@rule("sums are computed for each request: random numbers, the same address with different bodies", *BASELINE)
def random_sums(doors):
    a, b = random.randint(100, 999), random.randint(-999, -100)
    _sum(doors, a + b, f"/baseline11?a={a}&b={b}")
    for body in random.sample(range(100, 1000), 2):
        _sum(doors, 55 + body, method="POST", fields=FORM, body=str(body).encode())


@rule("a request is understood however it is cut: in its line, between fields, before and within its body", *BASELINE)
def pieces(doors):
    whole = asking.request("POST", PATH, FORM, b"20")
    cuts = [(10,), (len(PATH) + 16,), (len(whole) - 2,), (len(whole) - 2, len(whole) - 1), tuple(range(1, 12))]
    for cut in cuts:
        ends = (0, *cut, len(whole))
        parts = [whole[begin:end] for begin, end in zip(ends, ends[1:])]
        answer = asking.send_pieces(doors.http, parts, method="POST")
        equal(answer.text, "75", f"the answer to a request cut at {cut}")


@rule("a connection is kept for further requests, and closed when the client asks for it", *BASELINE)
def kept(doors):
    with asking.connected(doors.http) as connection:
        for number in range(3):
            connection.sendall(asking.request("GET", f"/baseline11?a={number}&b=1"))
            equal(asking.read_answer(connection).text, str(number + 1))
        connection.sendall(asking.request("GET", PATH, ["Connection: close"]))
        equal(asking.read_answer(connection).text, "55")
        expect(connection.recv(1) == b"", "the connection is still open")


@rule("GET /pipeline answers with ok as text/plain", "pipelined", brief=True)
def pipeline(doors):
    answer = asking.http1(doors.http, "/pipeline")
    equal(answer.status, 200, "the status")
    equal(answer.text, "ok")
    is_text(answer)


@rule("16 requests in one write get 16 answers in order", "pipelined")
def pipelined(doors):
    with asking.connected(doors.http) as connection:
        connection.sendall(asking.request("GET", "/pipeline") * 16)
        held = b""
        while held.count(b"HTTP/1.1 200") < 16:
            part = connection.recv(1 << 16)
            expect(part, f"the connection ended after {held.count(b'HTTP/1.1 200')} answers")
            held += part


def _sum_http2(doors, door):
    a, b = random.randint(100, 999), random.randint(100, 999)
    answer = asking.http2(doors.url(door, f"/baseline2?a={a}&b={b}"))
    equal(answer.version, "2", "the version of HTTP")
    equal(answer.status, 200, "the status")
    equal(answer.text, str(a + b))
    is_text(answer)


def _agreed(port, offered):
    with asking.socket.create_connection((asking.HOST, port), timeout=asking.PATIENCE_SECONDS) as connection:
        with asking.client_context(offered).wrap_socket(connection, server_hostname="localhost") as wrapped:
            return wrapped.selected_alpn_protocol()


@rule("GET /baseline2 by HTTP/2 over TLS answers with the sum of random numbers", "baseline-h2", brief=True)
def http2(doors):
    _sum_http2(doors, "h2")


@rule("the port of HTTP/2 over TLS agrees on h2 (ALPN)", "baseline-h2", "static-h2")
def alpn_h2(doors):
    equal(_agreed(doors.h2, ("h2", "http/1.1")), "h2", "the protocol agreed on")


@rule("the port of HTTP/1.1 over TLS does not agree on h2 (ALPN)", "json-tls")
def alpn_http1(doors):
    expect(_agreed(doors.tls, ("h2", "http/1.1")) in ("http/1.1", None), "the server agrees on h2")


@rule("GET /baseline2 by HTTP/2 without TLS answers with the sum of random numbers", "baseline-h2c", brief=True)
def h2c(doors):
    _sum_http2(doors, "h2c")


@rule("the port of HTTP/2 without TLS refuses HTTP/1.1", "baseline-h2c", "json-h2c")
def h2c_only(doors):
    with asking.connected(doors.h2c) as connection:
        connection.settimeout(5)
        connection.sendall(asking.request("GET", "/baseline2?a=1&b=1"))
        try:
            begin = connection.recv(1 << 12)
        except OSError:  # It was reset, or nothing came: also a refusal.
            return
    if begin.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
        raise Broken("it answers HTTP/1.1 with 200")
