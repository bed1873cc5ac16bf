"""The ASGI resource, with small applications, on a loopback port."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.task import Clock
from twisted.web.resource import IResource
from zope.interface.verify import verifyObject

from hivesub.web.asgi import ASGIApp, ASGIResource, ClientGone
from tests.conftest import LoggedFailures
from tests.integration.web_server import connected, on_the_loop, served

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/x-test")]}


def resource(app: ASGIApp, **options: Any) -> ASGIResource:
    return ASGIResource(app, **{"clock": reactor, **options})


async def ended(served_resource: ASGIResource) -> None:
    """Wait until no application call is left."""
    while served_resource.in_flight:
        await asyncio.sleep(0)


def piece(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def test_it_is_a_resource() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    verifyObject(IResource, resource(app))


@on_the_loop
async def test_a_large_body_comes_in_pieces_and_goes_back_in_pieces() -> None:
    sizes = []

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        more = True
        while more:
            message = await receive()
            sizes.append(len(message["body"]))
            more = message["more_body"]
            await send(piece(message["body"], more))

    body = bytes(range(256)) * 8192
    async with served(resource(echo)) as port, connected(port) as client:
        client.request("POST", "/", port, body)
        status, headers, answer = await client.answer()
    assert (status, headers["content-type"], answer) == (200, "application/x-test", body)
    assert len(sizes) > 4
    assert max(sizes) <= 256 * 1024


@on_the_loop
async def test_a_piece_arrives_while_the_application_still_runs() -> None:
    go_on = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(piece(b"first"))
        await go_on.wait()
        await send(piece(b"second", False))

    async with served(resource(app)) as port, connected(port) as client:
        client.request("GET", "/", port)
        assert (await client.head())[0] == 200
        assert await client.piece() == b"first"
        go_on.set()
        assert await client.piece() == b"second"
        assert await client.piece() == b""


@on_the_loop
async def test_headers_go_out_with_an_empty_first_piece() -> None:
    never = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(piece(b""))
        await never.wait()

    served_resource = resource(app)
    async with served(served_resource) as port, connected(port) as client:
        client.request("GET", "/", port)
        assert (await client.head())[0] == 200
        served_resource.stop()
        with pytest.raises(ConnectionResetError):
            await client.reader.read()


@on_the_loop
async def test_an_application_waits_for_a_client_that_does_not_read() -> None:
    pieces, size = 400, 64 * 1024
    sent = 0
    waiting = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send(START)
        for _ in range(pieces):
            sending = asyncio.ensure_future(send(piece(b"x" * size)))
            if not (await asyncio.wait([sending], timeout=0.3))[0]:
                waiting.set()
            await sending
            sent += 1
        await send(piece(b"", False))

    async with served(resource(app)) as port, connected(port, limit=1024) as client:
        client.request("GET", "/", port)
        await waiting.wait()
        assert sent < pieces / 2
        _, _, answer = await client.answer()
    assert len(answer) == pieces * size


@on_the_loop
async def test_a_client_that_never_reads_is_cut_off_after_a_while() -> None:
    clock = Clock()
    raised: list[BaseException] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        try:
            while True:
                await send(piece(b"x" * 65536))
        except BaseException as error:
            raised.append(error)
            raise

    served_resource = resource(app, clock=clock, stall_s=30)
    async with served(served_resource) as port, connected(port, limit=1024) as client:
        client.request("GET", "/", port)
        while True:
            # The kernel's buffers fill, and then the clock of the stall runs, undisturbed by any reading.
            await asyncio.sleep(0)
            if clock.getDelayedCalls() and not client.reader.at_eof():
                clock.advance(1)
            if not served_resource.in_flight:
                break
    assert isinstance(raised[0], asyncio.CancelledError | ClientGone)
    assert clock.getDelayedCalls() == []


@on_the_loop
async def test_a_stream_that_is_merely_quiet_is_not_cut_off() -> None:
    clock = Clock()
    go_on = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(piece(b"first"))
        await go_on.wait()
        await send(piece(b"second", False))

    async with served(resource(app, clock=clock, stall_s=30)) as port, connected(port) as client:
        client.request("GET", "/", port)
        await client.head()
        assert await client.piece() == b"first"
        clock.advance(3600)
        go_on.set()
        assert await client.piece() == b"second"


@on_the_loop
async def test_a_waiting_receive_hears_that_the_client_left() -> None:
    heard = asyncio.get_running_loop().create_future()
    waiting = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        waiting.set()
        heard.set_result(await receive())

    served_resource = resource(app)
    async with served(served_resource) as port:
        async with connected(port) as client:
            client.request("POST", "/", port, b"x")
            await waiting.wait()
        assert await heard == {"type": "http.disconnect"}
        await ended(served_resource)


@on_the_loop
async def test_an_application_that_does_not_listen_is_cancelled_when_the_client_leaves() -> None:
    cancelled = asyncio.get_running_loop().create_future()
    waiting = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set_result(await receive())
            raise

    served_resource = resource(app)
    async with served(served_resource) as port:
        async with connected(port) as client:
            client.request("POST", "/", port, b"x" * 300_000)
            await waiting.wait()
        assert await cancelled == {"type": "http.disconnect"}
        await ended(served_resource)


@on_the_loop
async def test_one_that_hears_and_does_not_go_is_cancelled_after_a_second() -> None:
    clock = Clock()
    heard, cancelled = asyncio.Event(), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await receive()
        heard.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    served_resource = resource(app, clock=clock)
    async with served(served_resource) as port:
        async with connected(port) as client:
            client.request("POST", "/", port, b"x")
            while not served_resource.in_flight:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
        await heard.wait()
        assert not cancelled.is_set()
        clock.advance(1)
        await cancelled.wait()
        await ended(served_resource)
    assert clock.getDelayedCalls() == []


@on_the_loop
async def test_nothing_is_written_to_a_client_that_left() -> None:
    raised = asyncio.get_running_loop().create_future()
    waiting = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(piece(b"first"))
        await receive()
        waiting.set()
        await receive()
        try:
            await send(piece(b"second"))
        except OSError as error:
            raised.set_result(error)
            raise

    served_resource = resource(app)
    async with served(served_resource) as port:
        async with connected(port) as client:
            client.request("POST", "/", port, b"x")
            await waiting.wait()
        assert isinstance(await raised, ClientGone)
        await ended(served_resource)


@on_the_loop
async def test_an_application_that_fails_before_it_answers_is_a_plain_500(logged_failures: LoggedFailures) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-half", b"said")]})
        raise LookupError("nothing there")

    async with served(resource(app)) as port, connected(port) as client:
        for _ in range(2):
            client.request("POST", "/", port, b"x")
            status, headers, body = await client.answer()
            assert (status, body) == (500, b"internal error\n")
            assert "x-half" not in headers
    assert len(logged_failures.flush_failures(LookupError)) == 2


@on_the_loop
async def test_an_application_that_fails_in_its_answer_cuts_the_connection(logged_failures: LoggedFailures) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(piece(b"half"))
        await receive()
        raise LookupError("nothing there")

    async with served(resource(app)) as port, connected(port) as client:
        client.request("POST", "/", port, b"x")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.answer()
    assert len(logged_failures.flush_failures(LookupError)) == 1


@on_the_loop
async def test_an_application_that_ends_without_an_answer_is_a_plain_500() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    async with served(resource(app)) as port, connected(port) as client:
        client.request("POST", "/", port, b"x")
        status, _, body = await client.answer()
    assert (status, body) == (500, b"internal error\n")


@on_the_loop
async def test_a_message_out_of_place_is_the_application_s_error(logged_failures: LoggedFailures) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(piece(b"no head"))

    async with served(resource(app)) as port, connected(port) as client:
        client.request("POST", "/", port, b"x")
        assert (await client.answer())[0] == 500
    assert len(logged_failures.flush_failures(RuntimeError)) == 1


@on_the_loop
async def test_after_the_answer_receive_tells_of_the_end() -> None:
    told = asyncio.get_running_loop().create_future()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(piece(b"all", False))
        told.set_result(await receive())

    async with served(resource(app)) as port, connected(port) as client:
        client.request("POST", "/", port, b"x")
        assert (await client.answer())[2] == b"all"
        assert await told == {"type": "http.disconnect"}


@on_the_loop
async def test_stop_answers_who_waits_with_a_503() -> None:
    waiting = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        waiting.set()
        await asyncio.Event().wait()

    served_resource = resource(app)
    async with served(served_resource) as port, connected(port) as client:
        client.request("POST", "/", port, b"x")
        await waiting.wait()
        served_resource.stop()
        status, headers, body = await client.answer()
        assert (status, headers["connection"]) == (503, "close")
        assert b"stopping" in body
        await ended(served_resource)


@on_the_loop
async def test_one_connection_carries_head_and_pipelined_requests_in_order() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"].encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(path))]})
        await send(piece(path, False))

    async with served(resource(app)) as port, connected(port) as client:
        client.request("HEAD", "/one", port)
        client.request("GET", "/two%20b", port)
        client.request("POST", "/three", port, b"x" * 20_000)
        status, headers = await client.head()
        assert (status, headers["content-length"]) == (200, "4")
        assert (await client.answer())[2] == b"/two b"
        assert (await client.answer())[2] == b"/three"


@on_the_loop
async def test_the_scope_says_what_was_asked_and_withholds_what_it_should() -> None:
    scopes: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await send(START)
        await send(piece(b"", False))

    withholding = resource(
        app, withheld=frozenset({b"authorization"}), extra_scope=lambda request: {"root_path": "/x", "mine": 1}
    )
    async with served(withholding) as port, connected(port) as client:
        client.request("POST", "/a%2fb?q=%20", port, b"x", "Authorization: Bearer s\r\nX-Two: 1\r\nX-Two: 2\r\n")
        assert (await client.answer())[0] == 200
    [scope] = scopes
    assert scope["type"] == "http"
    assert scope["http_version"] == "1.1"
    assert scope["method"] == "POST"
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/a/b", b"/a%2fb", b"q=%20")
    assert scope["server"] == ("127.0.0.1", port)
    assert scope["client"][0] == "127.0.0.1"
    assert [value for name, value in scope["headers"] if name == b"x-two"] == [b"1", b"2"]
    assert b"authorization" not in dict(scope["headers"])
    assert (scope["root_path"], scope["mine"]) == ("/x", 1)


@on_the_loop
async def test_the_connection_s_own_headers_are_not_the_application_s() -> None:
    headers = [(b"connection", b"close"), (b"transfer-encoding", b"x"), (b"set-cookie", b"a"), (b"set-cookie", b"b")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(piece(b"all", False))

    async with served(resource(app)) as port, connected(port) as client:
        for _ in range(2):
            client.request("GET", "/", port)
            head = (await client.reader.readuntil(b"\r\n\r\n")).lower()
            assert b"connection: close" not in head
            assert head.count(b"set-cookie: ") == 2
            assert await client.piece() == b"all"
            assert await client.piece() == b""
