"""A client of HTTP/2 with httpx: a request, an upload, and a hundred requests at once. Usage: client.py URL [AUTHORITY], the
second for TLS. It fails unless every answer is "Pong!" by HTTP/2."""

import asyncio
import ssl
import sys

import httpx


async def main(url, *authority):
    async with httpx.AsyncClient(http1=False, http2=True, verify=ssl.create_default_context(cafile=authority[0]) if authority else False,
                                 trust_env=False) as client:
        def check(answer):
            assert (answer.status_code, answer.text, answer.http_version) == (200, "Pong!", "HTTP/2"), answer

        check(await client.get(url))
        check(await client.post(url, content=bytes(200_000)))
        for answer in await asyncio.gather(*(client.get(url) for _ in range(100))):
            check(answer)


asyncio.run(main(*sys.argv[1:]))
