"""An HTTP server that takes 300 ms for every answer of 40,000 bytes. Prints its port."""
import asyncio

BODY = bytes(i % 251 for i in range(40000))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(BODY)


async def answer(reader, writer):
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        for part in range(3):
            await asyncio.sleep(0.1)
            writer.write(BODY[part * 15000:(part + 1) * 15000])
            await writer.drain()
    except ConnectionError:
        pass  # the client has gone
    writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
