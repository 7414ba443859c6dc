"""Checks that a server gives the answer that its workload demands. This is done at every start, so that no side is fast by
being wrong."""

import gzip
import http.client
import socket
import subprocess
import time

from .process import ServerError

PONG_BODY = b"Pong!"


def check(service, port, file=None):
    """Raises ServerError unless one request is answered as the service demands. `file`: (name, its bytes)."""
    try:
        if service.startswith("h2tls"):
            _check_http2(port, f"/{file[0]}" if file else "/", file[1] if file else PONG_BODY, scheme="https")
        elif service == "tcp500":
            _check_tcp500(port)
        elif service == "h2upload":
            _check_http2(port, "/", PONG_BODY, upload=b"x" * 100_000)
        elif service.startswith("h3"):
            _check_http3(port, f"/{file[0]}" if file else "/", file[1] if file else PONG_BODY)
        elif service.startswith("h2"):
            _check_http2(port, f"/{file[0]}" if file else "/", file[1] if file else PONG_BODY)
        elif service == "compressed":
            _check_compressed(port, f"/{file[0]}", file[1])
        elif service == "proxy-ws":
            _check_websocket(port)
        elif service in ("files", "proxy-files"):
            _check_http(port, f"/{file[0]}", file[1])
        else:
            _check_http(port, "/", PONG_BODY)
    except (OSError, subprocess.SubprocessError, http.client.HTTPException) as error:
        raise ServerError(f"the server on port {port} gave no complete answer: {error!r}") from None


_REFUSED, _ATTEMPTS, _ATTEMPT_SECONDS = 7, 50, 0.1


def _check_http3(port, path, expected):
    """The port may listen for TCP before it does for UDP."""
    for _ in range(_ATTEMPTS):
        done = subprocess.run(
            ["curl", "-s", "-k", "-m", "10", "--noproxy", "*", "--http3-only", f"https://127.0.0.1:{port}{path}"], capture_output=True, check=False)
        if done.returncode != _REFUSED:
            break
        time.sleep(_ATTEMPT_SECONDS)
    if done.stdout != expected:
        raise ServerError(f"GET {path} by HTTP/3: another body than expected (curl: exit code {done.returncode})")


def _check_tcp500(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        for _ in range(2):
            connection.sendall(b"anything")
            received = 0
            while received < 500:
                part = connection.recv(4096)
                if not part:
                    raise ServerError(f"the server on port {port} sent {received} bytes instead of 500")
                received += len(part)
            if received != 500:
                raise ServerError(f"the server on port {port} sent {received} bytes instead of 500")


def _receive(connection, end):
    """Receives until the bytes end so. Raises ServerError at the end of the connection."""
    received = b""
    while not received.endswith(end):
        part = connection.recv(4096)
        if not part:
            raise ServerError(f"the connection ended after {received[:200]!r}")
        received += part
    return received


def _check_websocket(port):
    """Opens a WebSocket as driver/websocket/load.c does, and has two messages sent back."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        head = _receive(connection, b"\r\n\r\n").lower()
        if not head.startswith(b"http/1.1 101 ") or b"s3pplmbitxaq9kygzzhzrbk+xoo=" not in head:
            raise ServerError(f"the WebSocket was not opened: {head[:200]!r}")
        for message in (b"hello", b"again"):
            connection.sendall(b"\x81\x85\0\0\0\0" + message)
            received = _receive(connection, message)
            if received != b"\x81\x05" + message:
                raise ServerError(f"the WebSocket sent {received!r} back")


def _check_http(port, path, expected):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        for _ in range(2):  # The second on the same connection: keep-alive works.
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200 or body != expected:
                raise ServerError(f"GET {path}: status {answer.status}, {len(body)} bytes (expected {len(expected)})")
    finally:
        connection.close()


def _check_compressed(port, path, expected):
    """Waits for some seconds: a file that has just changed may not be compressed yet."""
    for _ in range(60):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status == 200 and answer.headers["Content-Encoding"] == "gzip" and gzip.decompress(body) == expected:
            return
        time.sleep(0.1)
    raise ServerError(f"GET {path}: status {answer.status}, {len(body)} bytes, coding {answer.headers['Content-Encoding']}")


def _check_http2(port, path, expected, upload=None, scheme="http"):
    """By curl, with prior knowledge or ALPN, because Python's library has no HTTP/2."""
    url = f"{scheme}://127.0.0.1:{port}{path}"
    kind = ["--http2", "--insecure"] if scheme == "https" else ["--http2-prior-knowledge"]
    command = ["curl", "--silent", *kind, "--max-time", "60", "--write-out", "%{http_version} %{http_code}"]
    if upload is not None:
        command += ["--data-binary", "@-"]
    done = subprocess.run([*command, url], input=upload or b"", capture_output=True, check=False, timeout=90)
    if done.stdout != expected + b"2 200":
        raise ServerError(f"GET {path} by HTTP/2: exit code {done.returncode}, {len(done.stdout)} bytes that end with "
                          f"{done.stdout[-20:]!r} (expected {len(expected)} bytes and '2 200')")
