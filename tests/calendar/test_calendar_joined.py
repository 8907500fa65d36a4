"""An answer is given to the kernel whole, and what is never ended all the same."""

import asyncio

import uvicorn
from uvicorn.server import ServerState

from weir.calendar.rest.connections import Crowd, connections_of
from weir.calendar.rest.joined import JoinedTransport


class Kernel:
    """What a transport was told."""

    def __init__(self):
        self.told = []
        self.closed = False

    def write(self, data):
        assert not self.closed
        self.told.append(bytes(data))

    def close(self):
        self.closed = True

    abort = close

    def is_closing(self):
        return self.closed

    def get_extra_info(self, name, default=None):
        return ("10.0.0.1", 7) if name in {"peername", "sockname"} else default


def joined(steps):
    """What the kernel was told by the end of some steps, and a turn of the loop later."""

    async def scenario():
        kernel = Kernel()
        steps(kernel, JoinedTransport(kernel, asyncio.get_running_loop()))
        at_once = list(kernel.told)
        await asyncio.sleep(0)
        return at_once, kernel.told

    return asyncio.run(scenario())


def test_what_is_written_in_one_turn_of_the_loop_is_sent_together():
    def steps(_, transport):
        for piece in (b"a", bytearray(b"b"), b"", b"c"):
            transport.write(piece)

    assert joined(steps) == ([], [b"abc"])


def test_what_is_to_go_at_once_goes_before_what_comes_later():
    def steps(_, transport):
        transport.write(b"a")
        transport.flush()
        transport.flush()
        transport.write(b"b")

    assert joined(steps) == ([b"a"], [b"a", b"b"])


def test_what_was_written_before_the_end_is_sent_unless_the_end_is_abrupt():
    def ends(kernel, transport):
        transport.write(b"a")
        transport.close()
        assert transport.is_closing() and kernel.closed

    def breaks(kernel, transport):
        transport.write(b"a")
        transport.abort()
        assert kernel.closed

    def is_cut(kernel, transport):
        transport.write(b"a")
        kernel.close()

    assert joined(ends) == ([b"a"], [b"a"])
    assert joined(breaks) == joined(is_cut) == ([], [])


async def _answers(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    endless = scope["path"] == "/endless"
    await send({"type": "http.response.body", "body": b"one", "more_body": endless})
    if endless:
        await asyncio.Event().wait()


async def _told(path, turns):
    config = uvicorn.Config(_answers, http=connections_of(Crowd(1_024)), log_config=None)
    config.load()
    kernel, state = Kernel(), ServerState()
    connection = config.http_protocol_class(config, state, {})
    connection.connection_made(kernel)
    connection.data_received(f"GET {path} HTTP/1.1\r\nHost: calendar\r\n\r\n".encode())
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in state.tasks:
        task.cancel()
    return kernel.told


def test_head_and_body_of_an_answer_are_one_piece():
    (told,) = asyncio.run(_told("/", 1))
    assert told.startswith(b"HTTP/1.1 200 OK\r\n") and told.endswith(
        b"\r\n\r\n3\r\none\r\n0\r\n\r\n"
    )


def test_the_beginning_of_a_stream_does_not_wait_for_its_end():
    (told,) = asyncio.run(_told("/endless", 2))
    assert told.endswith(b"\r\n\r\n3\r\none\r\n")
