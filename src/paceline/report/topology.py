"""Who sent to whom, and how much: the federation as a drawing, with what failed in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from paceline.report.runs import Run
from paceline.report.spans import scan
from paceline.report.text import site, size, tag, words

SIZE, MIDDLE = 640, 320
MOST_DEVICES = 120
"""More devices than these are drawn as one dot for each server, with how many they are."""
MOST_LINKS = 2000
"""Of more links than these only those with most traffic are drawn, and what has failed."""
PALE = 150
"""More links than these are drawn paler."""
Links = dict[tuple[int, int], float]
_LINKS = pa.schema({"low": pa.int64(), "high": pa.int64(), "bytes": pa.float64()})
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Nodes with their places and names, and links with the bytes that went over them in both directions."""

    nodes: dict[int, Point]
    names: dict[int, str]
    links: Links
    note: str


def read_links(path: Path) -> Links:
    """Bytes between each two sites, in both directions together; the lower number comes first."""
    parts = [_LINKS.empty_table()]
    for batch in scan(path, ["site", "kind", "bytes", "peer"]):
        sent = pa.table(batch).filter(pc.equal(batch["kind"].cast(pa.string()), "send"))
        low, high = (pick(sent["site"], sent["peer"]) for pick in (pc.min_element_wise, pc.max_element_wise))
        parts.append(_summed(pa.table({"low": low, "high": high, "bytes": sent["bytes"]}).cast(_LINKS)))
    low, high, moved = (column.to_pylist() for column in _summed(pa.concat_tables(parts)).columns)
    return dict(zip(zip(low, high, strict=True), moved, strict=True))


def _summed(links: pa.Table) -> pa.Table:
    found = links.group_by(["low", "high"], use_threads=False).aggregate([("bytes", "sum")])
    return found.select(["low", "high", "bytes_sum"]).rename_columns(_LINKS.names)


def section(runs: Sequence[tuple[str, Run]]) -> str:
    """One drawing for each of these runs that moved anything."""
    drawn = [(label, run, links) for label, run in runs if run.spans and (links := read_links(run.spans))]
    if not drawn:
        return ""
    note = (
        "The wider a link, the more bytes went over it, in both directions and in the whole run. What failed is"
        " dashed and red, and says so. Point at a link for its bytes."
    )
    parts = [
        tag("figure", words("figcaption", f"{label}, seed {run.seed}") + draw(run, links), class_="drawn")
        for label, run, links in drawn
    ]
    return (
        words("h2", "Who is connected with whom", id="topology")
        + words("p", note, class_="note")
        + tag("div", "".join(parts), class_="pair")
    )


def draw(run: Run, links: Links) -> str:
    """The drawing of one run as SVG, and in words what it shows."""
    failed = {note.sites for note in run.notes if note.kind == "failure"}
    picture = thinned(arranged(links), failed)
    most = max(picture.links.values(), default=0.0)
    parts = [_link(picture, pair, amount, most, pair_failed(pair, failed)) for pair, amount in picture.links.items()]
    # Of very many, each is paler: else they would be one dark disk.
    parts = [tag("g", "".join(parts), stroke_opacity=min(1.0, (PALE / max(len(parts), 1)) ** 0.5))]
    parts += [_node(picture, index, (index,) in failed) for index in picture.nodes]
    label = f"Topology: {picture.note}"
    drawing = tag(
        "svg", "".join(parts), viewBox=f"0 0 {SIZE} {SIZE}", class_="topology", role="img", aria_label=label
    )
    return drawing + words("p", picture.note, class_="note")


def thinned(picture: Picture, failed: set[tuple[int, ...]]) -> Picture:
    """The same without its least links, where there are more than a reader can tell apart."""
    if len(picture.links) <= MOST_LINKS:
        return picture
    ranked = sorted(picture.links, key=lambda pair: (not pair_failed(pair, failed), -picture.links[pair], pair))
    note = f"{picture.note} Drawn are the {MOST_LINKS:,} links with most traffic."
    return replace(picture, links={pair: picture.links[pair] for pair in ranked[:MOST_LINKS]}, note=note)


def pair_failed(pair: tuple[int, int], failed: set[tuple[int, ...]]) -> bool:
    """Whether the link between two sites has failed, in whatever order it was named."""
    return pair in failed or pair[::-1] in failed


def arranged(links: Links) -> Picture:
    """Servers on an inner ring, devices outside near those they talk to; without servers all on one ring."""
    sites = sorted({index for pair in links for index in pair}, key=lambda index: (index >= 0, abs(index)))
    servers, devices = [s for s in sites if s < 0], [s for s in sites if s >= 0]
    several = len(servers) > 1
    names = {index: site(index, several=several) for index in sites}
    told = f"{len(servers)} server{'s' * several}, " if servers else ""
    told += f"{len(devices):,} devices, {len(links):,} links, {size(sum(links.values()))} in all"
    if servers and len(devices) > MOST_DEVICES:
        return _crowds(links, servers, names, f"{told}. Devices are drawn together, as one dot for each server")
    nodes = _servers(servers, links, 150.0)
    around = sorted(devices, key=lambda device: (_home(device, servers, links), device))
    nodes |= dict(zip(around, _ring(len(devices), 285.0), strict=True))
    return Picture(nodes=nodes, names=names, links=links, note=f"{told}.")


def _servers(servers: Sequence[int], links: Links, radius: float) -> dict[int, Point]:
    """Servers on a ring; one that all others are linked with, and no device, is their middle, as is a single one."""
    near = {server: {a + b - server for a, b in links if server in (a, b)} for server in servers}
    hubs = [server for server in servers if near[server] == {*servers} - {server}]
    middle = hubs if len(hubs) == 1 else list(servers[: len(servers) == 1])
    around = [server for server in servers if server not in middle]
    return dict(zip(around, _ring(len(around), radius), strict=True)) | dict.fromkeys(middle, (MIDDLE, MIDDLE))


def _home(device: int, servers: Sequence[int], links: Links) -> int:
    """The place among the servers of the one that a device exchanged most with."""
    amounts = [links.get((server, device), 0.0) for server in servers]
    return amounts.index(max(amounts)) if amounts else 0


def _crowds(links: Links, servers: Sequence[int], names: dict[int, str], note: str) -> Picture:
    nodes, outside = _servers(servers, links, 150.0), _servers(servers, links, 270.0)
    together: Links = {pair: amount for pair, amount in links.items() if pair[1] < 0}
    for server in servers:
        own = [pair for pair in links if pair[0] == server and pair[1] >= 0]
        if own:
            crowd = 1_000_000 - server
            nodes[crowd], names[crowd] = outside[server], f"{len(own):,} devices"
            together[(server, crowd)] = sum(links[pair] for pair in own)
    return Picture(nodes=nodes, names=names, links=together, note=f"{note}.")


def _ring(count: int, radius: float) -> list[Point]:
    angles = [2 * math.pi * place / max(count, 1) - math.pi / 2 for place in range(count)]
    return [(MIDDLE + radius * math.cos(angle), MIDDLE + radius * math.sin(angle)) for angle in angles]


def _link(picture: Picture, pair: tuple[int, int], amount: float, most: float, failed: bool) -> str:
    (x1, y1), (x2, y2) = picture.nodes[pair[0]], picture.nodes[pair[1]]
    wide = 0.6 + 4.4 * (amount / most if most else 0.0)
    text = f"{picture.names[pair[0]]} and {picture.names[pair[1]]}: {size(amount)}{', has failed' * failed}"
    look = "edge failed" if failed else "edge"
    told = {"data_from": picture.names[pair[0]], "data_to": picture.names[pair[1]], "data_bytes": int(amount)}
    told["data_failed"] = "yes" if failed else "no"
    return tag("line", words("title", text), x1=x1, y1=y1, x2=x2, y2=y2, stroke_width=wide, class_=look, **told)


def _node(picture: Picture, index: int, failed: bool) -> str:
    x, y = picture.nodes[index]
    kind = "server" if index < 0 else "device"
    crowded = index >= 1_000_000
    name = picture.names[index] + " has failed" * failed
    radius = 14.0 if crowded else 9.0 if index < 0 else 5.0
    parts = words("title", name) + tag("circle", cx=x, cy=y, r=radius)
    if index < 0 or crowded or len(picture.nodes) <= 40:
        text = picture.names[index] if index < 0 or crowded else str(index)
        # At the foot of the drawing the name stands above its dot, or it would leave the paper.
        below = y - radius - 5 if y > SIZE - 40 else y + radius + 15
        parts += words("text", text + " (failed)" * failed, x=x, y=below)
    return tag("g", parts, class_=f"node {kind}{' failed' * failed}")
