"""Clients that ask one thing and hand back the whole answer: HTTP/1.1 by a socket, written in whatever pieces a rule wants,
and HTTP/2 by curl.

Must not know rules.
"""

import contextlib
import http.client
import os
import socket
import ssl
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from .doors import HOST

PATIENCE_SECONDS = 30
PIECES_APART_SECONDS = 0.03


@dataclass(frozen=True)
class Answer:
    status: int
    fields: dict  # by name in lower case
    body: bytes
    version: str = "1.1"
    trailers: dict = field(default_factory=dict)

    @property
    def text(self):
        return self.body.decode("utf-8", "replace").strip()


def _fields(pairs):
    return {name.strip().lower(): value.strip() for name, value in pairs}


def client_context(protocols=("http/1.1",)):
    """A TLS client that trusts everybody, because the entries' certificate is made for the occasion."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context


@contextlib.contextmanager
def connected(port, tls=False):
    """A connection that sends each piece at once."""
    with socket.create_connection((HOST, port), timeout=PATIENCE_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not tls:
            yield connection
        else:
            with client_context().wrap_socket(connection, server_hostname="localhost") as wrapped:
                yield wrapped


def read_answer(connection, method="GET"):
    """The next answer of a connection, whether it has a length, comes in chunks, or ends with the connection."""
    response = http.client.HTTPResponse(connection, method=method)
    try:
        response.begin()
        return Answer(response.status, _fields(response.getheaders()), response.read())
    finally:
        response.close()


def send_pieces(port, pieces, tls=False, method="GET"):
    """The answer to a request that is written piece by piece."""
    with connected(port, tls) as connection:
        for index, piece in enumerate(pieces):
            if index:
                time.sleep(PIECES_APART_SECONDS)
            connection.sendall(piece)
        return read_answer(connection, method)


def request(method, path, fields=(), body=b""):
    """The bytes of a request. A body has a length unless the fields say that it comes in chunks."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
    if body and not any(line.lower().startswith("transfer-encoding") for line in lines):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def http1(port, path, method="GET", fields=(), body=b"", tls=False):
    """The answer to one request by HTTP/1.1."""
    return send_pieces(port, [request(method, path, fields, body)], tls, method)


def chunked(*parts):
    """A body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def _blocks(text):
    """The heads and trailers that curl received, as (first line, fields)."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line for line in block.split("\n") if line]
        if lines:
            has_status = lines[0].startswith("HTTP/")
            yield (lines[0] if has_status else ""), _fields(
                line.split(":", 1) for line in lines[has_status:] if ":" in line)


def http2(url, *options, body=None):
    """The answer to one request by HTTP/2, which curl makes: by prior knowledge without TLS, by ALPN with it."""
    kind = "--http2" if url.startswith("https") else "--http2-prior-knowledge"
    with tempfile.TemporaryDirectory(prefix="arena-") as scratch:
        head, content = os.path.join(scratch, "head"), os.path.join(scratch, "body")
        command = ["curl", "--silent", "--show-error", "--insecure", kind, "--max-time", str(PATIENCE_SECONDS), "--dump-header",
                   head, "--output", content, "--write-out", "%{http_version} %{http_code}", *options]
        if body is not None:
            command += ["--data-binary", "@-"]
        done = subprocess.run([*command, url], input=body or b"", capture_output=True, check=False,
                              timeout=PATIENCE_SECONDS + 10)
        if done.returncode != 0:
            raise OSError(f"curl: {done.stderr.decode('utf-8', 'replace').strip()}")
        version, status = done.stdout.decode().split()
        with open(head, encoding="latin-1") as file:
            blocks = list(_blocks(file.read()))
        found = b""
        if os.path.exists(content):
            with open(content, "rb") as file:
                found = file.read()
    heads = [fields for line, fields in blocks if line]
    trailers = blocks[-1][1] if not blocks[-1][0] else {}
    return Answer(int(status), heads[-1], found, version, trailers)
