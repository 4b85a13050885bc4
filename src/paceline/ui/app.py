"""The web application: what is asked by which address, and what answers."""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from paceline.errors import DataError, PacelineError, SettingError
from paceline.ui.asking import read_asked
from paceline.ui.filtering import chosen, ordered
from paceline.ui.following import news
from paceline.ui.guarding import REPORT, Gate, Guard
from paceline.ui.list_page import index, table
from paceline.ui.listing import Listed, Listing
from paceline.ui.live_page import live
from paceline.ui.plan_page import plan
from paceline.ui.planning import Planner
from paceline.ui.reporting import Reporter
from paceline.ui.shell import refused

STATIC = {
    "ui.css": "text/css",
    "list.js": "text/javascript",
    "live.js": "text/javascript",
    "plan.js": "text/javascript",
}
LARGEST_FORM, MOST_FIELDS = 1 << 16, 100
"""Most bytes and fields of a form."""
MOST_FOLLOWED = 40
MOST_COMPARED = 100


class Pages:
    """The answers."""

    def __init__(self, root: Path, gate: Gate, planner: Planner | None = None) -> None:
        self._listing = Listing(root)
        self._gate = gate
        self._planner = planner or Planner()
        self._reporter = Reporter()

    def routes(self) -> list[Route]:
        """What is asked by which address."""
        return [
            Route("/", self.index),
            Route("/table", self.table),
            Route("/live", self.live),
            Route("/news", self.news),
            Route("/compare", self.compare),
            Route("/plan", self.plan, methods=["GET", "POST"]),
            Route("/plan/{token}", self.plan_page),
            Route("/static/{name}", self.static),
        ]

    async def index(self, request: Request) -> Response:
        """All runs, or those that are asked for."""
        asked, sort = _asked(request)
        table = await run_in_threadpool(partial(self._table, asked, sort))
        return HTMLResponse(index(self._listing.root.name, table, asked, sort))

    async def table(self, request: Request) -> Response:
        """The list alone, for a page that is open."""
        return HTMLResponse(await run_in_threadpool(partial(self._table, *_asked(request))))

    def _table(self, asked: str, sort: str) -> str:
        runs = self._listing.runs()
        return table(ordered(chosen(runs, asked), sort), len(runs), cut=self._listing.cut, grouped=sort == "newest")

    async def live(self, request: Request) -> Response:
        """Curves of some runs, which grow while these run."""
        runs = await run_in_threadpool(partial(self._named, request, MOST_FOLLOWED))
        return HTMLResponse(live(runs))

    async def news(self, request: Request) -> Response:
        """What has come to some runs since somebody last looked: ``from`` has a byte for each ``run``."""
        begins = [int(text) for text in request.query_params.getlist("from") if text.isdecimal() and len(text) < 16]
        runs = await run_in_threadpool(partial(self._named, request, MOST_FOLLOWED))
        if len(begins) != len(runs):
            raise SettingError("every run needs a number from which on it is wanted")
        found = await run_in_threadpool(lambda: [news(run, begin) for run, begin in zip(runs, begins, strict=True)])
        return JSONResponse(found)

    async def compare(self, request: Request) -> Response:
        """The page that ``paceline report`` makes of some runs."""
        runs = await run_in_threadpool(partial(self._named, request, MOST_COMPARED))
        page = await self._reporter.page(runs)
        return HTMLResponse(page, headers={"Content-Security-Policy": REPORT})

    async def plan(self, request: Request) -> Response:
        """The form for plans, and the answer to one that was sent."""
        if request.method == "GET":
            return HTMLResponse(plan(self._gate.secret))
        form = await _form(request)
        if not self._gate.is_own_form(request, form):
            return PlainTextResponse("This form was not sent by a page of this server.\n", 403)
        try:
            made = await self._planner.plan(read_asked(form))
        except PacelineError as problem:
            return HTMLResponse(plan(self._gate.secret, form, problem=str(problem)), 422)
        return HTMLResponse(plan(self._gate.secret, form, token=made.token))

    async def plan_page(self, request: Request) -> Response:
        """A plan that was made, as a page of its own."""
        made = self._planner.find(request.path_params["token"])
        if made is None:
            return HTMLResponse(refused("This plan is not kept any more; ask for it again."), 404)
        return HTMLResponse(made.page, headers={"Content-Security-Policy": REPORT})

    async def static(self, request: Request) -> Response:
        """A file of the page itself: one of a few, by its name."""
        name = request.path_params["name"]
        if name not in STATIC:
            return PlainTextResponse("There is no such file.\n", 404)
        text = files("paceline.ui").joinpath("static", name).read_text(encoding="utf-8")
        return Response(text, media_type=STATIC[name])

    def _named(self, request: Request, most: int) -> list[Listed]:
        """The runs that an address names; each must be listed."""
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        if not 1 <= len(names) <= most:
            raise SettingError(f"{len(names)} runs are chosen; choose 1 to {most} in the list")
        runs = {run.name: run for run in self._listing.runs()}
        for name in names:
            if name not in runs:
                raise DataError(f"there is no run {name!r} below the directory that is served")
        return [runs[name] for name in names]


def make_app(root: Path, gate: Gate, planner: Planner | None = None) -> Guard:
    """The application that serves the runs below a directory."""
    answers = Pages(root, gate, planner)
    explained = dict.fromkeys((PacelineError, ClientDisconnect), _explained)
    app = Starlette(routes=answers.routes(), exception_handlers={**explained})
    return Guard(app, gate)


async def _explained(request: Request, problem: Exception) -> Response:
    """What Paceline can explain is a page, not a fault of the server."""
    status = 404 if isinstance(problem, DataError) else 422
    if request.url.path == "/news":
        return JSONResponse({"problem": str(problem)}, status)
    return HTMLResponse(refused(str(problem)), status)


def _asked(request: Request) -> tuple[str, str]:
    return request.query_params.get("q", "")[:500], request.query_params.get("sort", "newest")


async def _form(request: Request) -> dict[str, list[str]]:
    """Read a form within the limits on bytes and fields."""
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > LARGEST_FORM:
            raise SettingError(f"the form has more than {LARGEST_FORM:,} bytes")
    try:
        return parse_qs(found.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise SettingError(f"the form has more than {MOST_FIELDS} fields") from None
