"""Joins two networks: `python -m studies.rig.relay DESCRIPTOR HOST PORT`.

A socket belongs for good to the network namespace that it was made in, not to the process that
holds it. So a listening socket made outside a lab and handed to this program inside one has a leg
in each: who connects to it outside speaks to HOST:PORT inside.
"""

import asyncio
import contextlib
import socket
import sys
from asyncio import StreamReader, StreamWriter


async def relay(listener: socket.socket, host: str, port: int) -> None:
    """Serves until cancelled; a connection whose other side is gone is closed."""

    async def joined(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))

    server = await asyncio.start_server(joined, sock=listener)
    async with server:
        await server.serve_forever()


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(relay(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], int(sys.argv[3])))
