"""Figures for papers: the numbers of the tables, type that fits, files that publishers take."""

import itertools
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import paceline
from paceline.errors import DataError, SettingError
from paceline.figures.gantt import COLOURS, WAIT
from paceline.figures.kinds import KINDS, draw, write_figure
from paceline.figures.labels import Label, place
from paceline.figures.paper import Options, drawing, parse_width
from paceline.figures.sheets import sheet
from paceline.figures.targets import chosen_targets, cost
from paceline.report.curves import curve
from paceline.report.looks import looks
from paceline.report.runs import Group, group_runs, load_run
from paceline.report.spans import read_spans

METHODS = ("fedavg", "psfl", "fedbuff")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Three methods to one target, three seeds each, on unequal devices with links and powers."""
    out = tmp_path_factory.mktemp("figures") / "runs"
    fleet = {"fleet.links": "rate:2,10", "fleet.watts": 5, "fleet.link_watts": 1}
    paceline.compare(
        METHODS, clients=12, partition="iid", until="accuracy=0.7", seeds=3, settings=fleet, out=out, model="logistic"
    )
    return out


@pytest.fixture(scope="module")
def groups(out):
    return group_runs([load_run(path.parent) for path in sorted(out.glob("*/settings.json"))])


@pytest.fixture(scope="module")
def runs(out):
    return sorted(path.parent for path in out.glob("*/settings.json"))


def texts(figure):
    """All texts that are seen, with their frames on paper; ticks beyond the ends of an axis are not."""
    FigureCanvasAgg(figure).draw()
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        found += axes.texts
        if axes.axison:
            found += [axes.title, axes._left_title]
            for axis in (axes.xaxis, axes.yaxis):
                found += [axis.label, *(tick.label1 for tick in axis._update_ticks())]
    return [(one, one.get_window_extent()) for one in found if one.get_visible() and one.get_text().strip()]


@pytest.mark.parametrize("width", [3.5, 7.16])
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_cut_off_too_small_or_upon_another(groups, kind, width):
    figure = draw(kind, groups, Options(width=width))
    found = texts(figure)
    assert len(found) > 4
    paper = figure.bbox
    for text, frame in found:
        said = text.get_text()
        assert text.get_fontsize() >= (6 if said.isdigit() or said.startswith("server") else 8), said
        assert frame.x0 >= paper.x0 - 1 and frame.x1 <= paper.x1 + 1, said
        assert frame.y0 >= paper.y0 - 1 and frame.y1 <= paper.y1 + 1, said
    for (one, first), (other, second) in itertools.combinations(found, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        # Frames are a little larger than letters.
        assert min(wide, high) < 2.5, f"{one.get_text()!r} lies upon {other.get_text()!r}"


@pytest.mark.parametrize(
    ("kind", "ending"),
    [*((kind, "pdf") for kind in KINDS), ("accuracy", "svg"), ("topology", "svg"), ("pareto", "png")],
)
def test_files_have_the_width_of_a_column_and_are_the_same_again(runs, tmp_path, kind, ending):
    first, second = (
        write_figure(kind, runs, tmp_path / f"{name}.{ending}", Options()).read_bytes() for name in ("one", "two")
    )
    assert first == second
    if ending == "pdf":
        assert float(re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", first)[1]) == pytest.approx(3.5 * 72, abs=0.5)
        assert b"/FontFile2" in first, "letters are in the file"
        assert b"/Type3" not in first
        assert b"/Subtype /Image" not in first, "nothing is made of pixels"
    if ending == "svg":
        assert b'width="252pt"' in first
        assert b"<image" not in first
        assert b"<text" not in first, "letters are outlines"


def test_lines_are_the_curves_of_the_page(groups):
    axes = draw("accuracy", groups, Options()).axes[0]
    for group, look in zip(groups, looks(groups), strict=True):
        lines = [one for one in axes.lines if one.get_label() == look.label]
        wanted = curve(group)
        assert {line.get_color() for line in lines} == {look.colour}
        assert {line.is_dashed() for line in lines} == {bool(look.dash)}
        drawn = np.concatenate([line.get_xydata() for line in lines])
        np.testing.assert_array_equal(drawn, np.column_stack([wanted.x, wanted.y]))


def test_no_line_crosses_the_place_where_a_seed_ends(groups):
    axes = draw("accuracy", groups, Options()).axes[0]
    for group in groups:
        wanted = curve(group)
        seeds = [set(wanted.seeds[piece]) for piece in wanted.pieces()]
        lines = [one for one in axes.lines if one.get_label() == group.label]
        assert len(lines) == len(seeds) and all(len(each) == 1 for each in seeds)
    assert len({line.get_linewidth() for line in axes.lines if line.get_label() == groups[1].label}) == 2
    assert {text.get_text() for text in axes.texts} >= {look.label for look in looks(groups)}


def test_bytes_are_the_same_curves_over_traffic(groups):
    axes = draw("bytes", groups, Options()).axes[0]
    ends = {line.get_label(): line.get_xdata()[-1] for line in axes.lines}
    for group in groups:
        assert ends[group.label] == max(run.metrics["bytes"][-1] for run in group.runs)


def test_time_to_the_runs_own_target_is_the_tables_figure(groups):
    for group in groups:
        times = [run.summary["target"]["time"] for run in group.runs]
        assert cost(group, 0.7).mean == pytest.approx(np.mean(times))
        lower = cost(group, 0.4)
        by_hand = [run.metrics["time"][np.argmax(run.metrics["accuracy"] >= 0.4)] for run in group.runs]
        assert lower.mean == pytest.approx(np.mean(by_hand))
        # Student's t with two degrees of freedom.
        assert lower.half == pytest.approx(4.302653 * np.std(by_hand, ddof=1) / np.sqrt(3), rel=1e-5)
    assert chosen_targets(groups, ()) == [0.5, 0.6, 0.7]
    assert chosen_targets(groups, (0.6, 0.3)) == [0.3, 0.6]


def test_who_did_not_arrive_is_told(groups):
    """One seed of fedbuff never got there: its mean is of the others, and is marked."""
    short = load_run(groups[0].runs[0].path)
    short.summary["target"].update({"time": None, "bytes": None})
    some = Group(label="fedavg", runs=(short, *groups[0].runs[1:]))
    assert (cost(some, 0.7).arrived, cost(some, 0.7).half) == (2, 0.0)
    for kind in ("time-to-accuracy", "pareto"):
        said = [text.get_text() for text in draw(kind, [some, *groups[1:]], Options(targets=(0.7,))).axes[0].texts]
        assert any("2 of 3" in text for text in said)


def test_a_target_that_nobody_met(groups):
    said = [text.get_text() for text in draw("time-to-accuracy", groups, Options(targets=(0.6, 0.999))).axes[0].texts]
    assert "nobody" in said
    with pytest.raises(DataError, match=r"no run reached 0\.999; choose lower ones with --targets"):
        draw("time-to-accuracy", groups, Options(targets=(0.999,)))
    with pytest.raises(DataError, match=r"no run reached 0\.999"):
        draw("pareto", groups, Options(targets=(0.999,)))


def test_a_pareto_point_is_time_and_traffic_or_energy_at_the_target(groups):
    for name in ("bytes", "joules"):
        axes = draw("pareto", groups, Options(cost=name)).axes[0]
        dots = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"}
        wanted = {(cost(group, 0.7).mean, cost(group, 0.7, name).mean) for group in groups}
        assert dots == wanted


def test_logarithmic_axes(groups):
    assert draw("time-to-accuracy", groups, Options(log="y")).axes[0].get_yscale() == "log"
    assert draw("accuracy", groups, Options(log="x")).axes[0].get_xscale() == "log"
    axes = draw("pareto", groups, Options(log="xy")).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    with pytest.raises(SettingError, match="--log y: wanted x"):
        draw("accuracy", groups, Options(log="y"))
    with pytest.raises(SettingError, match="none for this kind"):
        draw("gantt", groups, Options(log="x"))


def test_bars_of_a_gantt_chart_are_the_spans(groups):
    run = groups[0].runs[0]
    axes = draw("gantt", groups[:1], Options(window=(2.0, 9.0), sites=12)).axes[0]
    rows = {label.get_text(): place for place, label in enumerate(axes.get_yticklabels())}
    spans = read_spans(run.spans).to_pylist()
    colours = {"train": COLOURS["train"], "send": COLOURS["send"]}
    for kind, colour in colours.items():
        (bars,) = [one for one in axes.collections if _same(one.get_facecolor()[0], colour)]
        for client in range(12):
            drawn = [path.get_extents() for path in bars.get_paths()]
            mine = sorted(
                (box.x0, box.x1) for box in drawn if round((box.y0 + box.y1) / 2) == rows[f"client {client}"]
            )
            wanted = sorted(
                (max(span["start"], 2.0), min(span["end"], 9.0))
                for span in spans
                if span["site"] == client and span["kind"] == kind and span["start"] < 9 and span["end"] > 2
            )
            np.testing.assert_allclose(mine, wanted)
    assert axes.get_xlim() == (2.0, 9.0)
    said = {text.get_text() for text in axes.texts}
    causes = {str(span["peer"]) for span in spans if span["kind"] == "wait" and span["site"] >= 0}
    assert said & causes, "a wait says for whom it is"


def _same(colour, name):
    from matplotlib.colors import to_rgba

    return tuple(colour) == to_rgba(name)


def test_a_gantt_chart_of_many_shows_those_who_are_waited_for(tmp_path):
    paceline.run(
        "fedavg", dry=True, clients=300, rounds=2, settings={"fedavg.participants": 200}, out=tmp_path / "many"
    )
    (group,) = group_runs([load_run(tmp_path / "many")])
    axes = draw("gantt", [group], Options(sites=10)).axes[0]
    shown = {label.get_text() for label in axes.get_yticklabels()}
    worst = [f"client {site}" for site, _ in group.runs[0].summary["idle_causes"] if site >= 0]
    assert len(shown) == 11
    assert shown >= set(worst[:2])
    assert "10 of" in axes.get_title(loc="left")


def test_a_run_that_holds_no_spans_is_named(tmp_path):
    paceline.run("fedavg", dry=True, clients=5, rounds=1, partition="iid", out=tmp_path / "one")
    for part in (tmp_path / "one" / "spans").iterdir():
        pq.write_table(pq.read_table(part).slice(0, 0), part)
    with pytest.raises(DataError, match="spans holds no spans; run it again for longer, or leave it out"):
        draw("gantt", group_runs([load_run(tmp_path / "one")]), Options())


def test_colours_of_acts_are_the_pages():
    page = (Path(paceline.__file__).parent / "report" / "assets" / "page.css").read_text()
    light = dict(re.findall(r"--(\w+): (#\w+);", page.partition("@media")[0]))
    assert {kind: light[kind] for kind in (*COLOURS, "wait")} == {**COLOURS, "wait": WAIT}


def test_links_are_as_wide_as_their_traffic_and_failures_are_red(tmp_path):
    settings = {"fleet.failures": "server:4@20+link:1-2@30", "fleet.links": "rate:2,10"}
    paceline.run("p-fedavg", dry=True, clients=36, rounds=20, settings=settings, out=tmp_path / "run")
    figure = draw("topology", group_runs([load_run(tmp_path / "run")]), Options())
    axes = figure.axes[0]
    lines = [line for line in axes.lines if len(line.get_xdata()) == 2]
    (broken,) = [line for line in lines if line.is_dashed()]
    assert broken.get_color() == "#c3362b"
    dead = [line for line in axes.lines if line.get_marker() == "s" and line.get_markeredgecolor() == "#c3362b"]
    assert len(dead) == 1
    sent = {}
    for span in read_spans(tmp_path / "run" / "spans").to_pylist():
        if span["kind"] == "send":
            pair = tuple(sorted((span["site"], span["peer"])))
            sent[pair] = sent.get(pair, 0.0) + span["bytes"]
    widths = sorted(line.get_linewidth() for line in lines)
    assert len(widths) == len(sent)
    assert widths[-1] / widths[len(widths) // 2] == pytest.approx(
        max(sent.values()) / sorted(sent.values())[len(sent) // 2], rel=0.01
    )
    assert "failed (red): 2" in figure.texts[0].get_text()


def test_failures_are_marked_in_time(tmp_path):
    settings = {"fleet.failures": "server:4@20+link:1-2@22", "fleet.links": "rate:2,10"}
    paceline.run("p-fedavg", dry=True, clients=36, rounds=8, settings=settings, out=tmp_path / "run")
    figure = draw("gantt", group_runs([load_run(tmp_path / "run")]), Options(window=(15, 30), sites=6))
    said = {text.get_text(): frame for text, frame in texts(figure)}
    first, second = said["server 4 fails"], said["link 1–2 fails"]
    assert not first.overlaps(second)
    times = {line.get_xdata()[0] for line in figure.axes[0].lines if line.get_color() == "#c3362b"}
    assert times == {20, 22}


def test_names_stay_text(groups):
    """Neither mathematics nor a broken formula comes of a name."""
    odd = Group(label="a $\\frac{1$ <b> & %", runs=groups[0].runs)
    figure = draw("accuracy", [odd, groups[1]], Options(width=7.16))
    assert any("$\\frac{1$" in text.get_text() for text in figure.axes[0].texts)
    texts(figure)  # it can be drawn


def test_labels_find_a_place_of_their_own():
    with drawing():
        figure, (axes,) = sheet(3.5, 2.4)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        place(figure, axes, [Label(text=f"method {k}", x=0.5, y=0.5 + 0.001 * k, colour="k") for k in range(6)])
        frames = [frame for text, frame in texts(figure) if text.get_text().startswith("method")]
    assert len(frames) == 6
    assert not any(first.overlaps(second) for first, second in itertools.combinations(frames, 2))


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("gant", "x.pdf", "did you mean 'gantt'"),
        ("accuracy", "x.gif", r"ends in \.pdf, \.svg, \.png"),
        ("table", "x.pdf", r"ends in \.tex"),
        ("accuracy", "file/x.pdf", "cannot be written"),
    ],
)
def test_what_cannot_be_is_said_before_work(runs, tmp_path, kind, name, message, monkeypatch):
    monkeypatch.setattr("paceline.figures.kinds.load_run", None)  # nothing is read
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match=message):
        write_figure(kind, runs, tmp_path / name, Options())
    assert not (tmp_path / name).exists()


def test_missing_spans_and_dry_runs_are_named(tmp_path):
    from paceline.cli.figure import figure

    paceline.run("fedavg", dry=True, clients=5, rounds=2, out=tmp_path / "dry")
    for part in (tmp_path / "dry" / "spans").iterdir():
        part.unlink()
    for kind in ("gantt", "topology"):
        with pytest.raises(DataError, match=f"{kind} is drawn from them; run it again without --no-spans"):
            figure([tmp_path / "dry"], kind, tmp_path / "x.pdf")
    with pytest.raises(DataError, match="no accuracy over virtual time was measured"):
        figure([tmp_path / "dry"], "accuracy", tmp_path / "x.pdf")
    with pytest.raises(DataError, match="no run reached any accuracy"):
        figure([tmp_path / "dry"], "time-to-accuracy", tmp_path / "x.pdf")
    assert not (tmp_path / "x.pdf").exists()


@pytest.mark.parametrize("text", ["0", "wide", "nan", "1e9", "-3"])
def test_widths_are_sound(text):
    with pytest.raises(SettingError, match="wanted column"):
        parse_width(text)


@pytest.mark.parametrize("words", [{"targets": "0.7,x"}, {"targets": "70"}, {"window": "5"}, {"window": "9,3"}])
def test_numbers_of_the_command_are_sound(runs, tmp_path, words):
    from paceline.cli.figure import figure

    with pytest.raises(SettingError, match="wanted"):
        figure(runs, "accuracy", tmp_path / "x.pdf", **words)


def test_python_draws_the_same(out, groups):
    figure = paceline.load(out).figure("accuracy", width="text")
    assert figure.get_size_inches()[0] == pytest.approx(7.16)
    assert figure._repr_png_().startswith(b"\x89PNG"), "it shows itself in a notebook"
    with pytest.raises(SettingError, match=r"result\.table\(\)\.latex\(\)"):
        paceline.load(out).figure("table")
