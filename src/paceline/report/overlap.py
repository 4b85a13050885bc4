"""What overlapping gains: the shares of time in which servers and devices are used and unused, as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.report.parties import Parties, Party
from paceline.report.tables import mean_cell, table
from paceline.report.text import MISSING, percent, seconds, site, tag, words

Figure = Callable[[Parties], float | None]

_DEFINITION = (
    "Shares of a party’s stretch of time, which for every party of every algorithm is the time from its own first"
    " span to its own last one."
)
_SERVER = (
    " A server works while it aggregates, screens or distils. Transfers are not its work: the column “neither works"
    " nor transfers” counts them as if they were."
)
_DEVICE = (
    " A device is unused while it neither computes nor transfers, whether it waits for others, was not asked or is"
    " away. The “idle” of the first table is something else: of the time in which devices were busy or waited for"
    " somebody, the share in which they waited."
)
_NO_WORK = " No server did any work that takes time in these runs."


def _of_servers(figure: Callable[[Party], float | None]) -> Figure:
    return lambda parties: figure(parties.servers) if parties.servers else None


def _of_devices(figure: Callable[[Party], float | None]) -> Figure:
    return lambda parties: figure(parties.devices) if parties.devices else None


_SERVER_COLUMNS: tuple[tuple[str, Figure], ...] = (
    ("server works", _of_servers(lambda party: party.share(party.work))),
    ("server does not work", _of_servers(lambda party: party.unused(party.work))),
    ("server neither works nor transfers", _of_servers(lambda party: party.unused(party.busy))),
)
_DEVICE_COLUMNS: tuple[tuple[str, Figure], ...] = (
    ("devices train", _of_devices(lambda party: party.share(party.train))),
    ("devices unused", _of_devices(lambda party: party.unused(party.busy))),
)


def shares(found: Sequence[tuple[str, Sequence[Parties]]]) -> str:
    """One row per algorithm, given as its name and the parties of its seeds, and what the figures mean."""
    every = [parties for _, seeds in found for parties in seeds]
    works = any(parties.servers and parties.servers.work > 0 for parties in every)
    columns = (*(_SERVER_COLUMNS if works else ()), *_DEVICE_COLUMNS)
    titles = ["algorithm", *(title for title, _ in columns), "device unused longest"]
    rows = []
    for name, seeds in found:
        cells = [name, *(_mean(seeds, figure) for _, figure in columns), _longest(seeds)]
        rows.append("".join(words("td", cell) for cell in cells))
    served = any(parties.servers for parties in every)
    text = _DEFINITION + (_SERVER if works else _NO_WORK if served else "") + _DEVICE
    return table([words("th", title, scope="col") for title in titles], rows) + words("p", text, class_="note")


def details(parties: Parties) -> str:
    """The seconds behind the shares, of one run."""
    head = [words("th", title, scope="col") for title in ("who", "first to last span", "busy", "waiting", "unused")]
    rows = []
    if (servers := parties.servers) is not None:
        name = "server" if servers.sites == 1 else f"{servers.sites} servers"
        if servers.work > 0:
            rows.append(_row(f"{name}: work", servers, servers.work))
        what = "work and transfers" if servers.work > 0 else "transfers"
        rows.append(_row(f"{name}: {what}", servers, servers.busy))
    if (devices := parties.devices) is not None:
        many = f"{devices.sites:,} devices together"
        rows.append(_row(many if devices.sites > 1 else "1 device", devices, devices.busy))
    ones = (
        ("busiest server", parties.busiest_server),
        ("busiest", parties.busiest),
        ("unused longest", parties.least_used),
    )
    for what, one in ones:
        if one is not None:
            rows.append(_row(f"{what}: {site(one[0], several=parties.several)}", one[1], one[1].busy))
    return table(head, rows)


def _row(name: str, party: Party, busy: float) -> str:
    cells = (seconds(party.stretch), seconds(busy), seconds(party.waiting), percent(party.unused(busy)))
    return words("td", name) + "".join(words("td", cell) for cell in cells)


def _mean(seeds: Sequence[Parties], figure: Figure) -> str:
    values = [value for parties in seeds if (value := figure(parties)) is not None]
    return mean_cell(values, percent) if values else MISSING


def _longest(seeds: Sequence[Parties]) -> str:
    """The share of the device that was unused longest; it has a name only within one run."""
    ones = [parties.least_used for parties in seeds if parties.devices is not None]
    if not ones:
        return MISSING
    if not any(ones):
        return "none was"
    values = [one[1].unused(one[1].busy) or 0.0 if one else 0.0 for one in ones]
    return f"{site(ones[0][0])}: {percent(values[0])}" if len(ones) == 1 and ones[0] else mean_cell(values, percent)


def beside(*parts: str) -> str:
    """Parts next to each other where the screen is wide enough."""
    return tag("div", "".join(tag("div", part) for part in parts if part), class_="pair")
