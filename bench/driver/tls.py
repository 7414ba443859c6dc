"""TLS for the workloads: certificates, a client that checks answers and counts bytes, and connections that stay idle.

The bytes of a request depend on the server (records, tickets) and are the same for each of its requests. So one client counts them
exactly, and the turns of a load generator are divided by that number (see `contest`).
"""

import os
import socket
import ssl
import subprocess

from .process import ServerError

KEYS = {"p256": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["-newkey", "rsa:2048"]}
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
SAMPLES = 5


class Credentials:
    """Certificates of the servers, one for each kind of key, and the settings that keep clients to a version."""

    def __init__(self, directory):
        self.directory = directory

    def provide(self, key):
        """The paths of a certificate and its key. They are made when first needed, and last a year."""
        os.makedirs(self.directory, exist_ok=True)
        paths = [os.path.join(self.directory, f"{key}.{end}") for end in ("pem", "key")]
        if not os.path.exists(paths[0]):
            subprocess.run(
                ["openssl", "req", "-x509", *KEYS[key], "-nodes", "-days", "365", "-batch", "-subj", "/CN=localhost",
                 "-keyout", paths[1], "-out", paths[0] + ".new"], check=True, capture_output=True)
            os.replace(paths[0] + ".new", paths[0])
        return paths

    def environment(self, version):
        """Words before a command of a load generator that uses OpenSSL: it does not speak a newer version."""
        path = os.path.join(self.directory, f"client-{version}.conf")
        os.makedirs(self.directory, exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMaxProtocol = TLSv{version}\n")
        return ["env", f"OPENSSL_CONF={path}"]


class Connection:
    """A client that counts the bytes it receives."""

    def __init__(self, port, version, session=None):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if session is None else session[0]
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self.context.maximum_version = VERSIONS[version]
        self.received = 0
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = self.context.wrap_bio(self.incoming, self.outgoing, session=None if session is None else session[1])
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        # Otherwise a request may wait for the acknowledgement of the handshake, and thousands of connections take minutes.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._do(self.tls.do_handshake)

    def _do(self, action):
        while True:
            try:
                result = action()
                self._flush()
                return result
            except ssl.SSLWantReadError:
                self._flush()
                part = self.socket.recv(1 << 18)
                self.received += len(part)
                if part:
                    self.incoming.write(part)
                else:
                    self.incoming.write_eof()

    def _flush(self):
        if self.outgoing.pending:
            self.socket.sendall(self.outgoing.read())

    def get(self, path, close=False):
        """The body of an answer with a Content-Length, or its chunks as they came. With `close`, everything is received until the end of the connection."""
        extra = "Connection: close\r\n" if close else ""
        self._do(lambda: self.tls.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n".encode()))
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._some()
        head, body = answer.split(b"\r\n\r\n", 1)
        lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        is_chunked = b"transfer-encoding: chunked" in head.lower()
        if not head.startswith(b"HTTP/1.1 200") or not (lengths or is_chunked):
            raise ServerError(f"GET {path}: {head[:100]!r}")
        while not body.endswith(b"\r\n0\r\n\r\n") if is_chunked else len(body) < int(lengths[0]):
            body += self._some()
        while close:
            try:
                if not self._do(lambda: self.tls.read(1 << 18)):
                    break
            except ssl.SSLError:
                break
        return body

    def _some(self):
        part = self._do(lambda: self.tls.read(1 << 18))
        if not part:
            raise ServerError("the server closed a connection instead of answering")
        return part

    def session(self):
        """What a later connection can resume."""
        return self.context, self.tls.session

    def close(self):
        self.socket.close()


# Signatures differ in length by a few bytes, and extensions between clients. What follows a handshake is longer.
_OPENING_VARIES = 64


def opening_bytes(port):
    """What a client receives, at most, until it has finished its part of the handshake."""
    try:
        connection = Connection(port, "1.3")
    except (OSError, ssl.SSLError) as error:
        raise ServerError(f"the server on port {port} did not finish a handshake: {error!r}") from None
    connection.close()
    return connection.received + _OPENING_VARIES


def check(port, version, path, expected, service):
    """Raises ServerError unless requests are answered with this body. Returns the bytes of one: on a connection that is kept, or of a
    whole connection for services that are measured with a connection for each request."""
    try:
        first = Connection(port, version)
        for _ in range(2):
            if first.get(path) != expected:
                raise ServerError(f"GET {path}: another body than expected")
        before, session = first.received, first.session()
        if service not in ("tls-close", "tls-handshake"):
            for _ in range(SAMPLES):
                first.get(path)
            return (first.received - before) / SAMPLES
        total = 0
        for _ in range(SAMPLES):
            one = Connection(port, version, session if service == "tls-close" else None)
            one.get(path, close=True)
            total += one.received
            one.close()
        return total / SAMPLES
    except (OSError, ssl.SSLError) as error:
        raise ServerError(f"the server on port {port} gave no complete answer: {error!r}") from None


class IdleConnections:
    """As load.IdleConnections, over TLS."""

    def __init__(self, port, count, version="1.3"):
        self.connections = []
        for _ in range(count):
            self.connections.append(Connection(port, version))
            self.connections[-1].get("/")

    def closed_by_server(self):
        closed = 0
        for connection in self.connections:
            connection.socket.setblocking(False)
            try:
                while connection.socket.recv(65536):  # tickets, or the announcement of the end
                    pass
                closed += 1
            except BlockingIOError:
                pass
            except OSError:
                closed += 1
        return closed

    def close(self):
        for connection in self.connections:
            connection.close()
