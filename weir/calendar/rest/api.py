"""The REST face of the calendar. Everything but /healthz wants a bearer token."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from weir import __version__
from weir.calendar.clock import format_instant
from weir.calendar.compact import compact_json
from weir.calendar.data_places import refusal
from weir.calendar.planning import terms
from weir.calendar.problem import MEDIA_TYPE, Problem, invalid, not_found, unavailable
from weir.calendar.records import ACTIVE, FINISHED, STATES, Submission, Transfer
from weir.calendar.rest.auth import AuthMiddleware
from weir.calendar.rest.bodies import Route
from weir.calendar.rest.quick import TRANSFERS, Endpoints, QuickRoutes
from weir.calendar.rest.tokens import Identity, TokenFile
from weir.calendar.service.events import KEEPALIVE_S, Dropped
from weir.calendar.service.models import (
    AgentAnswer,
    AgentReport,
    ElephantRequest,
    ElephantView,
    LinkState,
    NetworkView,
    PrecheckView,
    ProblemView,
    RefusalView,
    SeriesRequest,
    SeriesView,
    TimetableEntry,
    TimetableRequest,
    TimetableView,
    TransferRequest,
    TransferView,
    WhyView,
    elephant_view,
    forecast_view,
    found_view,
    timetable_view,
    view,
)
from weir.calendar.service.registry import EDGE_PREFIX, Reach, Role
from weir.calendar.service.service import Service
from weir.calendar.timetable import Timetable
from weir.errors import Unavailable

PAGE_MAX = 1_000
# Rights that are no verbs.
_MAY = {"elephants": "tell of elephants"}
_STATES = {"active": ACTIVE, "finished": FINISHED, "all": STATES} | {x: (x,) for x in STATES}

router = APIRouter(route_class=Route)


def create_app(service: Service, tokens: TokenFile) -> FastAPI:
    """The application around a service that is started and stopped with it."""

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = _Application(
        title="Weir calendar",
        version=__version__,
        description="Transfers with deadlines: admitted or refused at once, and on time.",
        lifespan=life,
        # The address of a redirection would be what the request says that it is.
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        responses={"4XX": {"model": ProblemView}, "503": {"model": ProblemView}},
    )
    app.state.service = service
    app.quick = QuickRoutes(
        service, tokens, Endpoints(submit, show, list_transfers, problem_response)
    )
    service.knows = tokens.knows
    app.include_router(router)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(Unavailable, _on_unavailable)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_middleware(AuthMiddleware, tokens=tokens)
    return app


async def _key(
    request: Request,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$")
    ] = None,
) -> str | None:
    if len(request.headers.getlist("idempotency-key")) > 1:
        raise invalid("Idempotency-Key", "two keys were given: which is meant?")
    return idempotency_key


async def _service(request: Request) -> Service:
    # Not a plain function: each call of one would go through a thread.
    service: Service = request.app.state.service
    return service


def _allowed(right: str) -> Callable[[Request], Awaitable[Identity]]:
    """A dependency that yields the caller's identity if its role includes `right`."""

    async def check(request: Request) -> Identity:
        identity: Identity = request.state.identity
        if not identity.may(right):
            who = f'"{identity.name}" has the role "{identity.role}"'
            raise _forbidden(f"{who}, which may not {_MAY.get(right, right)}")
        return identity

    return check


Serving = Annotated[Service, Depends(_service)]
Reader = Annotated[Identity, Depends(_allowed("read"))]
Submitter = Annotated[Identity, Depends(_allowed("submit"))]
Teller = Annotated[Identity, Depends(_allowed("elephants"))]
Admin = Annotated[Identity, Depends(_allowed("admin"))]
AgentIdentity = Annotated[Identity, Depends(_allowed("agent"))]
Key = Annotated[str | None, Depends(_key)]
# What an agent calls itself, at random, as long as it lives.
Instance = Annotated[str | None, Header(alias="Weir-Agent", pattern=r"^[0-9a-f]{1,64}$")]


@router.post(
    "/v1/transfers",
    status_code=201,
    response_model=TransferView,
    responses={202: {"model": TransferView}, 409: {"model": RefusalView}},
)
async def submit(
    body: TransferRequest,
    service: Serving,
    identity: Submitter,
    idempotency_key: Key = None,
) -> Response:
    """Admits a transfer, durably, or refuses it with the link and the earliest deadline.

    Where its answer may wait (`hold_s`), it may be answered with 202: taken on trial, by
    `answer_by` to be admitted or `refused`. Sent again with the same Idempotency-Key, an admitted
    request is answered with the same transfer and status 200, and nothing is admitted twice.
    """
    asked = await _asked(service, body, identity.name, idempotency_key)
    if isinstance(asked, Transfer):
        return _submitted(service, asked, 200)
    transfer, new = await service.submit(asked)
    if new and transfer.state == "waiting":
        return _submitted(service, transfer, 202)
    return _submitted(service, transfer, 201 if new else 200)


@router.post("/v1/series", response_model=SeriesView)
async def submit_series(
    body: SeriesRequest,
    service: Serving,
    identity: Submitter,
    idempotency_key: Key = None,
) -> Response:
    """Admits or refuses each occurrence by itself. Those of a key are `KEY/0`, `KEY/1` and on."""
    wanted: list[Submission | Transfer] = []
    for number, request in enumerate(body.requests()):
        key = None if idempotency_key is None else f"{idempotency_key}/{number}"
        # The agent is asked once, not for each.
        size_bytes = wanted[0].size_bytes if wanted else None
        wanted.append(await _asked(service, request, identity.name, key, size_bytes))
    answers = await asyncio.gather(
        *(_answer(service, asked) for asked in wanted), return_exceptions=True
    )
    listed = [_occurrence(service, *pair) for pair in zip(wanted, answers, strict=True)]
    admitted = sum(x["transfer"] is not None for x in listed)
    return _json({"admitted": admitted, "occurrences": listed})


@router.post("/v1/prechecks", response_model=PrecheckView)
async def precheck(body: TransferRequest, service: Serving, identity: Submitter) -> Response:
    """What a request would be answered now, and what it would cost whom; changes nothing."""
    asked = await _submission(service, body, identity.name, None)
    return _json(forecast_view(await service.precheck(asked)))


@router.get("/v1/transfers", response_model=list[TransferView])
async def list_transfers(
    service: Serving,
    _: Reader,
    state: Annotated[
        str, Query(description="active, finished, all, or one state", max_length=20)
    ] = "all",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
    before: Annotated[str | None, Query(max_length=40, description="older than this id")] = None,
) -> Response:
    """Transfers, newest first."""
    if state not in _STATES:
        raise invalid("state", f"{state!r} is not a state", f"the states are {', '.join(_STATES)}")
    after = None if before is None else await _find(service, before)
    found = await service.page(_STATES[state], after, limit)
    now_ns = service.now_ns()
    return _answer_text(f"[{','.join(service.view_text(x, now_ns) for x in found)}]")


@router.get("/v1/transfers/{identifier}", response_model=TransferView)
async def show(identifier: str, service: Serving, _: Reader) -> Response:
    """One transfer."""
    return _answer_text(service.view_text(await _find(service, identifier), service.now_ns()))


@router.get("/v1/transfers/{identifier}/why", response_model=WhyView)
async def why(identifier: str, service: Serving, _: Reader) -> Response:
    """Why a transfer waits, was slowed or will be late, or why a request was refused."""
    answer = await service.why(identifier) if _is_id(identifier) else None
    if answer is None:
        raise not_found("transfer or refused request", identifier)
    return _json(answer)


@router.get("/v1/why", response_model=WhyView)
async def why_mine(
    service: Serving,
    identity: Reader,
    key: Annotated[str | None, Query(max_length=255, description="its Idempotency-Key")] = None,
) -> Response:
    """The same of the caller's own: of the request with a key, or of the last that was refused."""
    answer = await service.why_mine(identity.name, key)
    if answer is None:
        name = f"of {identity.name}" if key is None else key
        raise not_found("refused request" if key is None else "request with the key", name)
    return _json(answer)


@router.delete("/v1/transfers/{identifier}", response_model=TransferView)
async def cancel(identifier: str, service: Serving, identity: Submitter) -> Response:
    """Gives an active transfer up; what has been delivered stays resumable."""
    transfer = await _find(service, identifier)
    if transfer.owner != identity.name and not identity.may("admin"):
        raise _forbidden(f'the transfer belongs to "{transfer.owner}"')
    if not transfer.active:
        raise _finished(transfer)
    try:
        cancelled = await service.cancel(identifier)
    except Problem as problem:
        if problem.status != 404:
            raise
        # It ended while the cancellation waited for its turn.
        raise _finished(await _find(service, identifier)) from None
    return _json(_view(service, cancelled))


@router.post("/v1/elephants", status_code=201, response_model=ElephantView)
async def tell_elephant(body: ElephantRequest, service: Serving, identity: Teller) -> Response:
    """Has a flow marked as an elephant, durably, until it is over.

    Told again of the same flow, the earlier one is changed and answered with status 200.
    """
    _check_bound(identity, body.source)
    asked = body.elephant(service.settings.network, service.now_ns(), identity.name)
    told = await service.tell_elephant(asked)
    view = elephant_view(told, service.sightings.of(told.id))
    return _json(view, 201 if told.id == asked.id else 200)


@router.get("/v1/elephants", response_model=list[ElephantView])
async def list_elephants(service: Serving, _: Reader) -> Response:
    """The elephants that are told of, and then those that the controller has found."""
    seen = service.sightings
    told = [elephant_view(x, seen.of(x.id)) for x in service.elephants.values()]
    return _json([*told, *(found_view(x) for x in seen.found)])


@router.delete("/v1/elephants/{identifier}", response_model=ElephantView)
async def end_elephant(identifier: str, service: Serving, identity: Teller) -> Response:
    """An elephant is over: its packets are marked no longer."""
    told = service.elephants.get(identifier)
    if told is None:
        raise not_found("elephant", identifier)
    if told.owner != identity.name and not identity.may("admin"):
        raise _forbidden(f'the elephant was told of by "{told.owner}"')
    seen = service.sightings.of(identifier)
    if not await service.end_elephants([identifier], "told"):
        raise not_found("elephant", identifier)
    return _json(elephant_view(told, seen) | {"marked": False})


@router.get("/v1/network", response_model=NetworkView)
async def network(service: Serving, _: Reader) -> Response:
    """Nodes, links, and what is allotted and measured on each link."""
    settings = service.settings
    links = [
        {
            "name": name,
            "source": settings.network.links[name].source,
            "target": settings.network.links[name].target,
            "capacity_bps": capacity_bps,
            "allotted_bps": allotted_bps,
            "measured_bps": round(measured_bps),
        }
        for name, capacity_bps, allotted_bps, measured_bps in await asyncio.to_thread(service.links)
    ]
    nodes = [
        {"name": name, "address": address, "agent": service.agent_state(name)}
        for name, address in settings.network.nodes.items()
    ]
    epoch_s = settings.epoch.ns / 1e9
    return _json({"policy": settings.policy, "epoch_s": epoch_s, "nodes": nodes, "links": links})


@router.get("/v1/links/{name:path}/timetable", response_model=list[TimetableView])
async def timetable(name: str, service: Serving, _: Reader) -> Response:
    """What a link, or each direction of it, carries when."""
    return _json(_timetables(service, _links(service, name)))


@router.post("/v1/links/{name:path}/timetable", response_model=list[TimetableView])
async def add_entry(name: str, body: TimetableEntry, service: Serving, _: Admin) -> Response:
    """Adds an entry to the timetable of a link, or of both its directions."""
    entry = body.entry()
    return await _changed(service, name, lambda x: replace(x, entries=(*x.entries, entry)))


@router.put("/v1/links/{name:path}/timetable", response_model=list[TimetableView])
async def set_timetable(name: str, body: TimetableRequest, service: Serving, _: Admin) -> Response:
    """Puts entries in the place of all that there are."""
    entries = tuple(x.entry() for x in body.entries)
    return await _changed(service, name, lambda x: replace(x, entries=entries))


@router.delete("/v1/links/{name:path}/timetable", response_model=list[TimetableView])
async def clear_timetable(name: str, service: Serving, _: Admin) -> Response:
    """Removes every entry: the link carries what the network says."""
    return await _changed(service, name, lambda x: replace(x, entries=()))


@router.put("/v1/links/{name:path}/state", response_model=list[TimetableView])
async def set_state(name: str, body: LinkState, service: Serving, _: Admin) -> Response:
    """Tells that a link is down, or up again."""
    return await _changed(service, name, lambda x: replace(x, down=not body.up))


@router.get("/v1/events")
async def events(
    service: Serving,
    identity: Reader,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
) -> Response:
    """Everything that happens, as server-sent events; resumes after Last-Event-ID."""
    after = None
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit()):
            raise invalid("Last-Event-ID", f'"{last_event_id}" is not the number of an event')
        after = int(last_event_id)
    return _stream(service.follow(after, identity.standing))


@router.get("/v1/agents/{host:path}/assignments")
async def assignments(
    host: str,
    service: Serving,
    identity: AgentIdentity,
    role: Role = "host",
    instance: Instance = None,
) -> Response:
    """An agent's assignments as server-sent events: first a snapshot of all, then changes."""
    _check_host(service, identity, host)
    if role == "control" and not _is_controller(service, identity):
        raise _forbidden(f'this token speaks for "{identity.host}", which is no switch')
    if role == "host":
        service.registry.hold(host, instance, time.monotonic())

    async def messages() -> AsyncGenerator[bytes, None]:
        # Opened by the first read: an agent that is gone before it leaves nothing behind.
        stream = service.open_stream(host, role, identity.standing, instance)
        try:
            while True:
                message = await stream.take(KEEPALIVE_S / 5)
                yield message or b": alive\n\n"
        except Dropped:
            return
        finally:
            service.registry.streams.discard(stream)

    return _stream(messages())


@router.post("/v1/agents/{host:path}/reports")
async def reports(
    host: str,
    body: AgentReport,
    request: Request,
    service: Serving,
    identity: AgentIdentity,
    instance: Instance = None,
) -> Response:
    """An agent's sign of life and measurements; answers with the ids that it should stop."""
    _check_host(service, identity, host)
    address = body.address or (request.client.host if request.client else None)
    if body.edge:
        is_controller = _is_controller(service, identity)
        if (body.kept or body.elephants) and not is_controller:
            raise _forbidden(f'this token speaks for "{identity.host}", which is no switch')
        await service.heard_agent(EDGE_PREFIX + host, Reach(address))
        # Nothing said by whoever may say nothing does not take back what the controller said.
        if body.kept is not None and is_controller:
            await service.heard_promises({one.id: one.kept() for one in body.kept})
        if body.elephants is not None and is_controller:
            await service.heard_elephants(
                {x.id: x.sighting() for x in body.elephants if x.id and not x.over},
                [x.sighting() for x in body.elephants if not x.id],
                {x.id: x.over for x in body.elephants if x.id and x.over},
            )
        return _json({"stop": []})
    service.registry.hold(host, instance, time.monotonic())
    reach = body.reach(address)
    _check_reach(service, host, reach, body.address)
    await service.heard_agent(host, reach)
    stop = await service.report(host, [report.report() for report in body.transfers])
    return _json({"stop": stop})


@router.post("/v1/agents/{host:path}/answers", status_code=204)
async def answers(
    host: str,
    body: AgentAnswer,
    service: Serving,
    identity: AgentIdentity,
    instance: Instance = None,
) -> None:
    """An agent's answer to a question that came with its assignments."""
    _check_host(service, identity, host)
    service.registry.hold(host, instance, time.monotonic())
    service.registry.answer(body.ticket, body.model_dump())


@router.get("/metrics")
async def metrics(service: Serving, _: Reader) -> Response:
    """Counters and gauges in Prometheus' text form."""
    text = await service.metrics_text()
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/healthz", responses={503: {"model": ProblemView}})
async def healthz(service: Serving) -> Response:
    """Whether the calendar is able to decide; needs no token."""
    return _json(
        {"status": "ok" if service.healthy else "failing"}, 200 if service.healthy else 503
    )


# --- helpers ---


async def _find(service: Service, identifier: str) -> Transfer:
    transfer = await service.find(identifier) if _is_id(identifier) else None
    if transfer is None:
        raise not_found("transfer", identifier)
    return transfer


def _links(service: Service, name: str) -> list[str]:
    """The link of that name, or both directions of what the network file calls so."""
    links = service.settings.network.links
    found = [x for x in (name, f"{name}.forward", f"{name}.backward") if x in links]
    if not found:
        raise not_found("link", name)
    return found


def _timetables(service: Service, links: Iterable[str]) -> list[dict[str, Any]]:
    nominal = {x: service.settings.network.links[x].capacity_bps for x in links}
    return [
        timetable_view(x, bps, service.capacity_bps(x), service.timetables.get(x, Timetable()))
        for x, bps in nominal.items()
    ]


async def _changed(
    service: Service, name: str, change: Callable[[Timetable], Timetable]
) -> Response:
    links = _links(service, name)
    await service.change_timetables(links, change)
    return _json(_timetables(service, links))


def _is_id(text: str) -> bool:
    return text.isascii() and text.isalnum() and len(text) <= 40


async def _asked(
    service: Service,
    body: TransferRequest,
    owner: str,
    key: str | None,
    size_bytes: int | None = None,
) -> Submission | Transfer:
    """The request, checked; or what was admitted under its key before.

    What was admitted once stays so, whatever has become of its deadline or its file since.
    """
    try:
        return await _submission(service, body, owner, key, size_bytes)
    except Problem:
        earlier = await service.find_key(owner, key)
        if earlier is None or earlier.fingerprint != body.fingerprint():
            raise
        return earlier


async def _answer(service: Service, asked: Submission | Transfer) -> Transfer:
    return asked if isinstance(asked, Transfer) else (await service.submit(asked))[0]


async def _submission(
    service: Service,
    body: TransferRequest,
    owner: str,
    key: str | None,
    size_bytes: int | None = None,
) -> Submission:
    """The request, checked, of that size where it says none and the agent need not be asked."""
    size_bytes = size_bytes if body.size_bytes is None else body.size_bytes
    if size_bytes is None:
        # Everything else is checked before the agent is bothered.
        _checked(service, body, owner, None, max(1, body.least_bytes or 1))
        earlier = await service.find_key(owner, key)
        if earlier is None:
            size_bytes = await _size_bytes(service, body)
        else:
            size_bytes = earlier.size_bytes
    return _checked(service, body, owner, key, size_bytes)


def _checked(
    service: Service, body: TransferRequest, owner: str, key: str | None, size_bytes: int
) -> Submission:
    asked = body.submission(service.settings.network, service.now_ns(), owner, key, size_bytes)
    terms.check(asked, service.settings)
    return asked


def _occurrence(
    service: Service, asked: Submission | Transfer, answer: Transfer | BaseException
) -> dict[str, Any]:
    """What became of one window; raises what is no answer to it."""
    if isinstance(answer, BaseException) and not isinstance(answer, Problem):
        raise answer
    return {
        "start": None if asked.start_ns is None else format_instant(asked.start_ns),
        "deadline": format_instant(asked.deadline_ns),
        "transfer": None if isinstance(answer, Problem) else _view(service, answer),
        "refusal": answer.body() if isinstance(answer, Problem) else None,
    }


def _submitted(service: Service, transfer: Transfer, status: int) -> Response:
    headers = {"Location": f"/v1/transfers/{transfer.id}"}
    return _answer_text(service.view_text(transfer, service.now_ns()), status, headers)


async def _size_bytes(service: Service, body: TransferRequest) -> int:
    answer = await service.registry.ask(body.source, {"path": body.source_path})
    size_bytes = answer.get("size_bytes")
    if size_bytes is None:
        raise invalid("source_path", f"{body.source}:{body.source_path}: {answer.get('error')}")
    return int(size_bytes)


def _finished(transfer: Transfer) -> Problem:
    return Problem(409, "finished", "The transfer is finished", f"it is {transfer.state} already")


def _check_reach(service: Service, host: str, reach: Reach, claimed: str | None) -> None:
    """Refuses an agent that says that it is reached where another host is, as far as is declared.

    `claimed` is what it says of its own address. That from which it connects may be a proxy's.
    """
    network = service.settings.network
    addresses = (*network.nodes.items(), *network.addresses6.items())
    whose = next((x for x, ip in addresses if ip == claimed and x != host), None)
    why = None
    if reach.data_address is not None:
        why = refusal(network.data_places, host, reach.data_address, reach.data_ports)
    if why is None and claimed is not None and whose is not None:
        why = f'"{claimed}" is the address of "{whose}"'
    if why is not None:
        problem = _forbidden(why)
        problem.hint = f'the network file says where "{host}" is: address, data_address'
        raise problem


def _check_host(service: Service, identity: Identity, host: str) -> None:
    if host not in service.settings.network.nodes:
        raise not_found("host", host)
    _check_bound(identity, host)


def _is_controller(service: Service, identity: Identity) -> bool:
    """Whether a token may speak as the controller's does: for a switch, or for every node."""
    return identity.host is None or identity.host in service.settings.network.datapaths


def _check_bound(identity: Identity, host: str) -> None:
    if identity.host is not None and identity.host != host:
        raise _forbidden(f'this token speaks for "{identity.host}", not for "{host}"')


def _forbidden(why: str) -> Problem:
    return Problem(403, "forbidden", "The token does not allow this", why)


def _view(service: Service, transfer: Transfer) -> dict[str, Any]:
    lanes, measured_bps = service.lanes_of(transfer), service.measured_bps(transfer)
    kept = service.promises.of(transfer.id)
    return view(transfer, service.now_ns(), lanes, measured_bps, kept)


def _json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return _answer_text(compact_json(body), status, headers)


def _answer_text(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, headers, media_type="application/json")


def _stream(chunks: AsyncGenerator[bytes, None]) -> Response:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return _Stream(chunks, headers=headers, media_type="text/event-stream")


class _Application(FastAPI):
    """The framework's application, behind what answers plain requests without it."""

    quick: QuickRoutes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "http" and scope["path"].startswith(TRANSFERS):
            unread = await self.quick.answer(scope, receive, send)
            if unread is None:
                return
            receive = unread
        await super().__call__(scope, receive, send)


class _Stream(StreamingResponse):
    """A stream that is closed with its connection, also while a piece of it is on its way."""

    body_iterator: AsyncGenerator[bytes, None]

    async def stream_response(self, send: Send) -> None:
        """Sends it."""
        async with aclosing(self.body_iterator):
            await super().stream_response(send)


async def _on_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem), "registered for it"
    return problem_response(error)


async def _on_unavailable(_request: Request, error: Exception) -> Response:
    return problem_response(unavailable(str(error)))


def problem_response(problem: Problem) -> Response:
    """A problem as it is sent."""
    headers = {"WWW-Authenticate": "Bearer"} if problem.status == 401 else None
    text = compact_json(problem.body())
    return Response(text, problem.status, headers, media_type=MEDIA_TYPE)


async def _on_validation(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "registered for it"
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        detail = f"the body is not JSON: {first['ctx']['error']}"
        return problem_response(Problem(400, "malformed", "The request is malformed", detail))
    field = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "header"))
    given = "" if first["type"] == "missing" else f", not {first['input']!r:.80}"
    hint = f"unknown key: {field}" if first["type"] == "extra_forbidden" else None
    name = f'"{field}"' if field else "the body"
    return problem_response(invalid(field or None, f"{name}: {first['msg']}{given}", hint))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it"
    detail = f"{error.detail}: {request.method} {request.url.path}"
    return problem_response(Problem(error.status_code, "http", str(error.detail), detail))
