"""Plays a scene as a client of HTTP/3, with aioquic, and prints what it has seen, a line each.

    client.py PORT CERTIFICATE SCENE
"""

import asyncio
import os
import socket
import sys
from collections import defaultdict

import pylsqpack
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, FrameType, H3Connection, encode_frame
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamReset

PORT = int(sys.argv[1])


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.heads = defaultdict(list)
        self.bodies = defaultdict(bytes)
        self.ended = defaultdict(asyncio.Event)
        self.data = defaultdict(asyncio.Event)
        self.resets = {}
        self.stopped = {}
        self.over = asyncio.Event()
        self.code = None

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            self.resets[event.stream_id] = event.error_code
            self.ended[event.stream_id].set()
        elif isinstance(event, StopSendingReceived):
            self.stopped[event.stream_id] = event.error_code
        elif isinstance(event, ConnectionTerminated):
            self.code, self.reason = event.error_code, event.reason_phrase
            self.over.set()
            for waiting in self.ended.values():
                waiting.set()
        for seen in self.http.handle_event(event):
            if isinstance(seen, HeadersReceived):
                self.heads[seen.stream_id].append(dict(seen.headers))
            if isinstance(seen, DataReceived):
                self.bodies[seen.stream_id] += seen.data
                self.data[seen.stream_id].set()
            if getattr(seen, "stream_ended", False):
                self.ended[seen.stream_id].set()

    def begin(self, method, path, fields=(), end=True):
        stream = self._quic.get_next_available_stream_id()
        head = [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path)]
        self.http.send_headers(stream, head + list(fields), end_stream=end)
        self.transmit()
        return stream

    def send(self, stream, data, end=False):
        self.http.send_data(stream, data, end_stream=end)
        self.transmit()

    async def rebind(self):
        "Continues with another socket, of which the connection knows nothing. Returns its port."
        old, new = self._transport, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        new.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        new.bind(("::", 0))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=new)
        old.close()
        return new.getsockname()[1]

    async def answer(self, stream):
        await asyncio.wait_for(self.ended[stream].wait(), 20)
        if stream in self.resets:
            return "reset %#x" % self.resets[stream], b""
        head = self.heads[stream][0] if self.heads[stream] else {}
        return head.get(b":status", b"-").decode(), self.bodies[stream]


def connected(create=Client, **options):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost", **options)
    configuration.load_verify_locations(sys.argv[2])
    return connect("127.0.0.1", PORT, configuration=configuration, create_protocol=create)


async def get():
    async with connected() as client:
        status, body = await client.answer(client.begin(b"GET", b"/?x=1"))
        print(status, body.decode())


async def many():
    "A hundred requests at once, which all wait half a second."
    async with connected() as client:
        start = asyncio.get_event_loop().time()
        streams = [client.begin(b"GET", b"/slow") for _ in range(100)]
        answers = [await client.answer(stream) for stream in streams]
        took = asyncio.get_event_loop().time() - start
        print(len([1 for status, body in answers if (status, body) == ("200", b"slow")]), "in time" if took < 10 else took)


async def echo():
    "An upload that is larger than all windows, while its echo comes back."
    async with connected() as client:
        data = os.urandom(3000000)
        stream = client.begin(b"POST", b"/echo", end=False)
        for at in range(0, len(data), 100000):
            client.send(stream, data[at : at + 100000])
            await asyncio.sleep(0)
        client.send(stream, b"", end=True)
        status, body = await client.answer(stream)
        print(status, body == data)


async def trailers():
    async with connected() as client:
        stream = client.begin(b"POST", b"/trailers", end=False)
        client.send(stream, b"body")
        client.http.send_headers(stream, [(b"x-sum", b"12")], end_stream=True)
        client.transmit()
        status, body = await client.answer(stream)
        print(status, body.decode(), [head.get(b"x-check") for head in client.heads[stream]][-1])


async def stream():
    "The first piece of a response comes before the second one is written."
    async with connected() as client:
        one = client.begin(b"GET", b"/stream")
        await asyncio.wait_for(client.data[one].wait(), 10)
        print(client.bodies[one].decode())
        two = client.begin(b"GET", b"/release")
        await client.answer(two)
        print((await client.answer(one))[1].decode())


async def reset():
    "Ends a request in its middle. Another one tells what its application has got."
    async with connected() as client:
        one = client.begin(b"POST", b"/read", end=False)
        client.send(one, b"some")
        await asyncio.sleep(0.3)
        client._quic.reset_stream(one, 0x10C)
        client.transmit()
        await asyncio.sleep(0.3)
        print((await client.answer(client.begin(b"GET", b"/seen")))[1].decode())


async def leave():
    "The client is gone, and says so."
    async with connected() as client:
        one = client.begin(b"POST", b"/read", end=False)
        client.send(one, b"some")
        await asyncio.sleep(0.3)
    async with connected() as client:
        await asyncio.sleep(0.3)
        print((await client.answer(client.begin(b"GET", b"/seen")))[1].decode())


async def failure():
    async with connected() as client:
        print((await client.answer(client.begin(b"GET", b"/fails")))[0])
        print((await client.answer(client.begin(b"GET", b"/fails-late")))[0])
        print((await client.answer(client.begin(b"GET", b"/")))[0])


async def raw(client, head):
    "A request without aioquic's own checks."
    stream = client._quic.get_next_available_stream_id()
    _, block = pylsqpack.Encoder().encode(stream, head)
    client._quic.send_stream_data(stream, encode_frame(FrameType.HEADERS, block), end_stream=True)
    client.transmit()
    return await client.answer(stream)


def head_of(method=b"GET", path=b"/"):
    return [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", path)]


async def broken():
    "Requests that no client may send."
    heads = {
        "no path": head_of()[:3],
        "upper case": head_of() + [(b"X-Name", b"1")],
        "connection": head_of() + [(b"connection", b"close")],
        "two lengths": head_of(b"POST") + [(b"content-length", b"1"), (b"content-length", b"2")],
        "two hosts": head_of() + [(b"host", b"other")],
        "line end": head_of() + [(b"x-name", b"a\nb"), (b"x-good", b"1")],
        "colon": head_of() + [(b"x:name", b"1")],
    }
    for name, head in heads.items():
        async with connected() as client:
            status, _ = await raw(client, head)
            refused = status.startswith("reset") or status.startswith("4") or client.code not in (None, 0)
            print(name, "refused" if refused else "answered with " + status)


async def early():
    """Comes again with a ticket and a token, and asks before the handshake is over (0-RTT). Prints what the first answers say of that, and whether the
    server has accepted it."""
    kept = {}
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
    configuration.load_verify_locations(sys.argv[2])

    def again(**options):
        return connect("127.0.0.1", PORT, configuration=configuration, create_protocol=Client, **options)

    async with again(session_ticket_handler=lambda ticket: kept.update(ticket=ticket), token_handler=lambda token: kept.update(token=token)) as client:
        await client.answer(client.begin(b"GET", b"/"))
        while len(kept) < 2:
            await client.ping()
    configuration.session_ticket, configuration.token = kept["ticket"], kept["token"]
    async with again(wait_connected=False) as client:
        get = client.begin(b"GET", b"/names")
        post = client.begin(b"POST", b"/echo", end=False)
        client.send(post, b"body", end=True)
        print((await client.answer(get))[1].decode())
        print((await client.answer(post))[1].decode())
        print(client._quic.tls.early_data_accepted)


async def end():
    "The server ends while a request is served. The request is answered, and the connection ends without an error."
    async with connected() as client:
        one = client.begin(b"GET", b"/slow")
        await client.answer(client.begin(b"GET", b"/shutdown"))
        status, body = await client.answer(one)
        print(status, body.decode())
        await asyncio.wait_for(client.over.wait(), 10)
        print("%#x" % client.code)


async def useless():
    "Packets that bring nothing, until the server ends the connection."
    async with connected() as client:
        await client.answer(client.begin(b"GET", b"/"))
        for number in range(400):
            client._quic.send_ping(number)
            client.transmit()
            await asyncio.sleep(0)
        await asyncio.wait_for(client.over.wait(), 10)
        print("%#x" % client.code, client.reason)


async def few():
    "Requests, one after the other, until the server ends the connection. Prints how many were answered."
    async with connected() as client:
        answered = 0
        while not client.over.is_set() and (await client.answer(client.begin(b"GET", b"/")))[0] == "200":
            answered += 1
            await asyncio.sleep(0.1)
        await asyncio.wait_for(client.over.wait(), 10)
        print(answered, "%#x" % client.code)


async def update():
    "Other keys and another address while a response comes."
    async with connected() as client:
        stream = client.begin(b"GET", b"/large")
        await asyncio.wait_for(client.data[stream].wait(), 10)
        client.request_key_update()
        await client.ping()
        client.change_connection_id()
        await client.ping()
        status, body = await client.answer(stream)
        print(status, len(body), body == bytes(range(256)) * (len(body) // 256))


async def rebinding():
    """Another address while a response comes, as if a router had forgotten the client: what is sent to the old one is lost, and the client
    does not know. A server learns the new address from a packet that comes from it. Who only receives may have none to send. So this
    client sends a ping."""
    async with connected() as client:
        _, before = await client.answer(client.begin(b"GET", b"/port"))
        stream = client.begin(b"GET", b"/large")
        await asyncio.wait_for(client.data[stream].wait(), 10)
        port = await client.rebind()
        arrived = len(client.bodies[stream])
        await asyncio.wait_for(client.ping(), 10)
        status, body = await client.answer(stream)
        _, after = await client.answer(client.begin(b"GET", b"/port"))
        print(status, len(body), body == bytes(range(256)) * (len(body) // 256))
        print("in its middle" if arrived < len(body) else "too late", before != after, after == b"%d" % port)


async def wandering():
    """Many other addresses, with a request from each. The system gives the datagrams from each to any of the server's sockets."""
    async with connected() as client:
        right = 0
        for _ in range(16):
            port = await client.rebind()
            await asyncio.wait_for(client.ping(), 10)
            _, seen = await client.answer(client.begin(b"GET", b"/port"))
            right += seen == b"%d" % port
        print(right, len(client.heads), client.code)


def main():
    scene = globals()[sys.argv[3]]
    asyncio.run(scene())


if __name__ == "__main__":
    main()
