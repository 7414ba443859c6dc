"""Carries connections of HTTP/2 on as HTTP/3, so that clients of HTTP/2 in tests speak with a server of HTTP/3. Its QUIC is aioquic's, its QPACK that of
ls-qpack; the rest is here. Must not know: what the tests expect.

    gateway.py        listens on a port of the loopback interface, says which, and ends when its input does

A connection begins with the server's port in decimal and a line feed. Then come the preface and the frames of HTTP/2; all fields are literals. Frames are
translated one by one: windows follow the client's own WINDOW_UPDATE, and an upload goes on when the server has acknowledged what was sent. If the client leaves, by a frame of the type
0xf0 or in the middle of one, its connection of HTTP/3 is closed at once; if it only ends its side, after the last response.
"""

import asyncio
import ssl
import sys

import pylsqpack
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StopSendingReceived, StreamDataReceived, StreamReset

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION, PRIORITY_UPDATE, LEAVE = *range(10), 0x10, 0xF0
END, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_MOST = 16384
TABLE = 4096

# Error codes of HTTP/3 (RFC 9114, section 8.1) as those of HTTP/2.
CODES = {0x100: 0, 0x101: 1, 0x102: 2, 0x106: 1, 0x107: 11, 0x10B: 7, 0x10C: 8, 0x10E: 1, 0x10F: 10}
CANCELLED = 0x10C


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def integer(data, at, bits):
    "A number of HPACK and where it ends (RFC 7541, section 5.1)."
    most = (1 << bits) - 1
    value, at, shift = data[at] & most, at + 1, 0
    while value >= most:
        value, shift = value + ((data[at] & 127) << shift), shift + 7
        at += 1
        if data[at - 1] < 128:
            break
    return value, at


def string(data, at):
    length, at = integer(data, at, 7)
    return data[at : at + length], at + length


def from_literals(data):
    "The fields of a block in which each is a literal that enters no table."
    fields, at = [], 0
    while at < len(data):
        assert data[at] == 0, "a field that is not a literal"
        name, at = string(data, at + 1)
        value, at = string(data, at)
        fields.append((name, value))
    return fields


def text(data, bits, pattern):
    "A string behind a length in so many bits of its first octet, the rest of which is given."
    most = (1 << bits) - 1
    if len(data) < most:
        return bytes([pattern | len(data)]) + data
    rest, octets = len(data) - most, bytearray([pattern | most])
    while rest >= 128:
        octets.append(rest % 128 + 128)
        rest //= 128
    return bytes(octets) + bytes([rest]) + data


def to_literals(fields):
    return b"".join(b"\0" + text(name, 7, 0) + text(value, 7, 0) for name, value in fields)


def to_block(fields):
    "Fields as a block of QPACK that uses no table (RFC 9204, section 4.5.6). That of ls-qpack takes no long ones."
    return b"\0\0" + b"".join(text(name, 3, 0x20) + text(value, 7, 0) for name, value in fields)


def varint(data, at):
    "A number of QUIC and where it ends; None if it is not complete."
    if at >= len(data):
        return None, at
    length = 1 << (data[at] >> 6)
    if at + length > len(data):
        return None, at
    return Buffer(data=bytes(data[at : at + length])).pull_uint_var(), at + length


class Quic(QuicConnection):
    "Does not open windows by itself."

    def _write_connection_limits(self, builder, space):
        limit = self._local_max_data
        used, limit.used = limit.used, 0
        super()._write_connection_limits(builder=builder, space=space)
        limit.used = used

    def _write_stream_limits(self, builder, space, stream):
        receiver = stream.receiver
        highest, receiver.highest_offset = receiver.highest_offset, 0
        super()._write_stream_limits(builder=builder, space=space, stream=stream)
        receiver.highest_offset = highest


class Exchange:
    "A stream, by its numbers in HTTP/2 and HTTP/3."

    def __init__(self, link, number, identity):
        self.link, self.number, self.identity = link, number, identity
        self.buffer, self.data_left = bytearray(), 0
        self.uploaded = self.credited = 0
        self.stopped = self.sent_all = self.received_all = False


class Up(QuicConnectionProtocol):
    "The side of HTTP/3."

    def __init__(self, quic, link):
        super().__init__(quic)
        self.link = link

    def quic_event_received(self, event):
        self.link.happened(event)

    def datagram_received(self, data, address):
        super().datagram_received(data, address)
        self.link.give_credit()


class Link(asyncio.Protocol):
    "The side of HTTP/2."

    def connection_made(self, transport):
        self.transport = transport
        self.received, self.port, self.begun = bytearray(), None, False
        self.up = self.quic = self.control = None
        self.exchanges, self.identities, self.uni = {}, {}, {}
        self.block = None
        self.waiting = []
        self.ready = self.ended = self.closed = False
        self.window = 65535
        self.decoder = pylsqpack.Decoder(TABLE, 0)

    # From the client.

    def data_received(self, data):
        self.received += data
        if self.port is None:
            end = self.received.find(b"\n")
            if end < 0:
                return
            self.port = int(self.received[:end])
            del self.received[: end + 1]
        if not self.begun:
            if len(self.received) < len(PREFACE):
                return
            assert self.received.startswith(PREFACE)
            del self.received[: len(PREFACE)]
            self.begun = True
        while len(self.received) >= 9:
            size = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + size:
                break
            kind, flags, stream = self.received[3], self.received[4], int.from_bytes(self.received[5:9], "big")
            payload = bytes(self.received[9 : 9 + size])
            del self.received[: 9 + size]
            self.came(kind, flags, stream, payload)

    def came(self, kind, flags, stream, payload):
        if kind == LEAVE:
            self.ended = True
            self.transport.abort()
            return
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                if int.from_bytes(payload[at : at + 2], "big") == 4 and self.up is None:
                    self.window = int.from_bytes(payload[at + 2 : at + 6], "big")
            if self.up is None:
                asyncio.ensure_future(self.connect())
            self.put(frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        elif self.ready:
            self.forward(kind, flags, stream, payload)
            self.transmit()
        else:
            self.waiting.append((kind, flags, stream, payload))

    async def connect(self):
        configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost", verify_mode=ssl.CERT_NONE,
            max_data=65535, max_stream_data=self.window)
        configuration.idle_timeout = 120
        self.quic = Quic(configuration=configuration)
        loop = asyncio.get_running_loop()
        _, self.up = await loop.create_datagram_endpoint(lambda: Up(self.quic, self), local_addr=("127.0.0.1", 0))
        if self.closed:
            self.up._transport.close()
        else:
            self.up.connect(("127.0.0.1", self.port))

    def forward(self, kind, flags, stream, payload):
        exchange = self.exchanges.get(stream)
        if kind in (HEADERS, CONTINUATION):
            if kind == HEADERS:
                self.block = (flags & END, b"")
            self.block = (self.block[0], self.block[1] + payload)
            if flags & END_HEADERS:
                end, block = self.block
                self.send_fields(stream, from_literals(block), bool(end))
        elif kind == DATA and exchange is not None:
            exchange.uploaded += len(payload)
            if not exchange.stopped:
                piece = encode_uint_var(0) + encode_uint_var(len(payload)) + payload if payload else b""
                self.send(exchange, piece, bool(flags & END))
            self.give_credit()
        elif kind == RESET and exchange is not None:
            self.drop(exchange)
        elif kind == WINDOW:
            self.widen(exchange if stream else None, int.from_bytes(payload, "big"))
        elif kind == PING and not flags & ACK:
            asyncio.ensure_future(self.answer_ping(payload))
        elif kind == PRIORITY_UPDATE:
            exchange = self.exchanges.get(int.from_bytes(payload[:4], "big"))
            if exchange is not None:
                body = encode_uint_var(exchange.identity) + payload[4:]
                self.quic.send_stream_data(self.control, encode_uint_var(0xF0700) + encode_uint_var(len(body)) + body)

    def send_fields(self, stream, fields, end):
        exchange = self.exchanges.get(stream)
        if exchange is None:
            identity = self.quic.get_next_available_stream_id()
            exchange = self.exchanges[stream] = self.identities[identity] = Exchange(self, stream, identity)
        if exchange.stopped:
            return
        fields = [(name, b"https" if name == b":scheme" and value == b"http" else value) for name, value in fields]
        block = to_block(fields)
        self.send(exchange, encode_uint_var(1) + encode_uint_var(len(block)) + block, end)

    def send(self, exchange, data, end):
        self.quic.send_stream_data(exchange.identity, data, end)
        exchange.sent_all = exchange.sent_all or end

    def drop(self, exchange):
        if not (exchange.stopped or exchange.sent_all):
            self.quic.reset_stream(exchange.identity, CANCELLED)
        if not exchange.received_all:
            self.quic.stop_stream(exchange.identity, CANCELLED)
        self.forget(exchange)

    def widen(self, exchange, size):
        "Opens the window of a stream, or of the connection."
        if exchange is None:
            self.quic._local_max_data.value += size
        elif not exchange.received_all:
            stream = self.quic._streams.get(exchange.identity)
            if stream is not None:
                stream.max_stream_data_local += size

    async def answer_ping(self, payload):
        await self.up.ping()
        self.put(frame(PING, ACK, 0, payload))

    def eof_received(self):
        self.ended = True
        if self.received:
            self.transport.abort()
        self.close_if_done()
        return True

    def connection_lost(self, _):
        self.closed = True
        if self.up is not None and self.up._transport is not None:
            self.up.close(error_code=0x100)
            asyncio.get_running_loop().call_later(0.1, self.up._transport.close)

    # From the server.

    def happened(self, event):
        if isinstance(event, HandshakeCompleted):
            self.begin()
        elif isinstance(event, StreamDataReceived):
            if event.stream_id % 4 == 0:
                self.came_on_request(event)
            else:
                self.came_on_uni(event)
        elif isinstance(event, StreamReset):
            exchange = self.identities.get(event.stream_id)
            if exchange is not None:
                self.put(frame(RESET, 0, exchange.number, CODES.get(event.error_code, 2).to_bytes(4, "big")))
                self.forget(exchange)
        elif isinstance(event, StopSendingReceived):
            exchange = self.identities.get(event.stream_id)
            if exchange is not None:
                exchange.stopped = True
        elif isinstance(event, ConnectionTerminated):
            code = CODES.get(event.error_code, 0 if event.error_code == 0 else 2)
            self.put(frame(GOAWAY, 0, 0, bytes(4) + code.to_bytes(4, "big") + event.reason_phrase.encode()))
            self.transport.close()

    def begin(self):
        self.control = self.quic.get_next_available_stream_id(is_unidirectional=True)
        settings = b"".join(encode_uint_var(number) for number in (1, TABLE, 7, 0))
        self.quic.send_stream_data(self.control, b"\0" + encode_uint_var(4) + encode_uint_var(len(settings)) + settings)
        encoder = self.quic.get_next_available_stream_id(is_unidirectional=True)
        self.quic.send_stream_data(encoder, b"\2")
        self.to_decoder = self.quic.get_next_available_stream_id(is_unidirectional=True)
        self.quic.send_stream_data(self.to_decoder, b"\3")
        self.ready = True
        for one in self.waiting:
            self.forward(*one)
        self.transmit()

    def came_on_uni(self, event):
        "Only the instructions for the QPACK table matter here."
        self.widen_all(event.stream_id, len(event.data))
        data = event.data
        if event.stream_id not in self.uni and data:
            self.uni[event.stream_id], data = data[0], data[1:]
        if self.uni.get(event.stream_id) == 2 and data:
            self.decoder.feed_encoder(data)

    def widen_all(self, identity, size):
        self.quic._local_max_data.value += size
        stream = self.quic._streams.get(identity)
        if stream is not None:
            stream.max_stream_data_local += size

    def came_on_request(self, event):
        exchange = self.identities.get(event.stream_id)
        if exchange is None:
            self.quic._local_max_data.value += len(event.data)
            return
        exchange.buffer += event.data
        parts, body = self.parts_of(exchange)
        # What is no body does not count for the windows of HTTP/2.
        self.widen_all(event.stream_id, len(event.data) - body)
        if event.end_stream:
            exchange.received_all = True
            if not parts:
                parts.append((DATA, b""))
        for index, (kind, data) in enumerate(parts):
            end = END if event.end_stream and index == len(parts) - 1 else 0
            if kind == DATA:
                self.put(frame(DATA, end, exchange.number, data))
            else:
                self.put_block(exchange.number, end, data)
        if event.end_stream:
            self.forget(exchange)
            self.close_if_done()

    def parts_of(self, exchange):
        "Frames, and bytes of bodies as far as they have come, and how many these are."
        parts, body, buffer = [], 0, exchange.buffer
        while buffer:
            if exchange.data_left > 0:
                data = bytes(buffer[: min(exchange.data_left, FRAME_MOST)])
                del buffer[: len(data)]
                exchange.data_left -= len(data)
                body += len(data)
                parts.append((DATA, data))
                continue
            kind, at = varint(buffer, 0)
            size, at = varint(buffer, at) if kind is not None else (None, at)
            if size is None or kind != 0 and len(buffer) < at + size:
                break
            if kind == 0:
                exchange.data_left = size
                del buffer[:at]
                continue
            data = bytes(buffer[at : at + size])
            del buffer[: at + size]
            if kind == 1:
                acknowledged, fields = self.decoder.feed_header(exchange.identity, data)
                self.quic.send_stream_data(self.to_decoder, acknowledged)
                parts.append((HEADERS, to_literals(fields)))
        return parts, body

    def put_block(self, number, end, block):
        pieces = [block[at : at + FRAME_MOST] for at in range(0, len(block), FRAME_MOST)] or [b""]
        for index, piece in enumerate(pieces):
            last = END_HEADERS if index == len(pieces) - 1 else 0
            self.put(frame(HEADERS if index == 0 else CONTINUATION, last | (end if index == 0 else 0), number, piece))

    def give_credit(self):
        "Lets the client send as much as the server has acknowledged."
        for exchange in list(self.exchanges.values()):
            stream = self.quic._streams.get(exchange.identity)
            unconfirmed = 0
            if stream is not None and not exchange.stopped:
                unconfirmed = stream.sender._buffer_stop - stream.sender._buffer_start
            credit = exchange.uploaded - exchange.credited - unconfirmed
            if credit > 0:
                exchange.credited += credit
                size = credit.to_bytes(4, "big")
                self.put(frame(WINDOW, 0, exchange.number, size) + frame(WINDOW, 0, 0, size))

    # Both.

    def forget(self, exchange):
        # What was not credited yet is the connection's.
        if exchange.uploaded > exchange.credited:
            self.put(frame(WINDOW, 0, 0, (exchange.uploaded - exchange.credited).to_bytes(4, "big")))
        self.exchanges.pop(exchange.number, None)
        self.identities.pop(exchange.identity, None)

    def close_if_done(self):
        if self.ended and not self.exchanges:
            self.transport.close()

    def put(self, data):
        if not self.transport.is_closing():
            self.transport.write(data)

    def transmit(self):
        if self.up is not None and self.up._transport is not None:
            self.up.transmit()


async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Link, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
