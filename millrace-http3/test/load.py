"""Clients of HTTP/3 that ask without a pause, half of them on new connections, until there is nothing more to read.

    load.py PORT CERTIFICATE

Prints how many answers there were, how many requests a client had to repeat because the server refused them or closed the connection in
good order (RFC 9114, section 5.2), and then a line for each request that was lost.
"""

import asyncio
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

PORT = int(sys.argv[1])
H3_NO_ERROR, H3_REQUEST_REJECTED = 0x100, 0x10B

answers = repeated = 0
lost = []
over = False


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.waiting = {}
        self.statuses = {}
        self.code = None

    def quic_event_received(self, event):
        if isinstance(event, StreamReset):
            if not self.waiting[event.stream_id].done():
                self.waiting[event.stream_id].set_result(event.error_code)
        elif isinstance(event, ConnectionTerminated):
            self.code = event.error_code
            for answer in self.waiting.values():
                if not answer.done():
                    answer.set_result(event.error_code)
        for seen in self.http.handle_event(event):
            if isinstance(seen, HeadersReceived):
                self.statuses[seen.stream_id] = dict(seen.headers).get(b":status")
            if getattr(seen, "stream_ended", False) and not self.waiting[seen.stream_id].done():
                status = self.statuses.get(seen.stream_id)
                self.waiting[seen.stream_id].set_result("answer" if status == b"200" else status)

    async def ask(self):
        stream = self._quic.get_next_available_stream_id()
        self.waiting[stream] = asyncio.get_running_loop().create_future()
        self.http.send_headers(stream, [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"localhost"), (b":path", b"/")], end_stream=True)
        self.transmit()
        return await asyncio.wait_for(self.waiting[stream], 8)


async def client(keeps):
    global answers, repeated
    while not over:
        configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="localhost")
        configuration.load_verify_locations(sys.argv[2])
        outcome = "answer"
        try:
            async with connect("127.0.0.1", PORT, configuration=configuration, create_protocol=Client) as connection:
                while outcome == "answer" and not over and connection.code is None:
                    outcome = await connection.ask()
                    answers += outcome == "answer"
                    if not keeps:
                        break
                    await asyncio.sleep(0.01)
        except Exception as failure:
            outcome = repr(failure)
        if outcome in (H3_NO_ERROR, H3_REQUEST_REJECTED):
            repeated += 1
        elif outcome != "answer":
            lost.append(outcome)


async def main():
    global over
    clients = [asyncio.create_task(client(keeps)) for keeps in [True, False] * 4]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    over = True
    await asyncio.gather(*clients)
    print(answers)
    print(repeated)
    for outcome in lost:
        print(outcome)


asyncio.run(main())
