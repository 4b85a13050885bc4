"""A fleet from a run on real machines: what is measured, and that it predicts the next run."""

import math
import subprocess
import sys
import tomllib
from statistics import median

import pytest

from paceline.errors import DataError
from paceline.plans.fleet import fit, measure
from paceline.plans.fleet_check import predict, simulated_rounds
from paceline.plans.fleet_file import as_toml
from paceline.system import FleetSettings, build_fleet
from paceline.worlds.local.journal import Entry
from tests.plans.journals import SIZE, Machines, median_round, write_run

SPEEDS = (0.4, 1.0, 2.0, 0.7)


def written(run, path):
    path.write_text(as_toml(measure(run), run.name))
    return path


def visit(site, number, start, end, **more):
    return Entry(what="visit", site=site, number=number, start=start, end=end, **more)


def test_a_simulation_predicts_the_next_run(tmp_path):
    """Fitted to one run, compared with another of the same machines, whose draws are its own."""
    entries, ends = Machines(SPEEDS, seed=1).rounds(10)
    run = write_run(tmp_path / "run", entries, ends, clients=4)
    fleet = written(run, tmp_path / "fleet.toml")
    _, later = Machines(SPEEDS, seed=2).rounds(10)
    predicted = simulated_rounds(run, fleet, 10)
    assert len(predicted) == 10
    assert median(predicted) == pytest.approx(median_round(later), rel=0.2)
    found = predict(run, fleet)
    assert found.rounds == 10 and found.measured == pytest.approx(median_round(ends))
    assert found.ratio == pytest.approx(1, abs=0.02)  # every trip is as long as it was


def test_what_takes_no_luck_is_found_again(tmp_path):
    entries, ends = Machines(SPEEDS, seed=0, noise=0).rounds(4)
    found = fit(entries, 4)
    assert found.one_size and found.server == pytest.approx(0.02)
    assert [len(device.seconds) for device in found.devices] == [4] * 4
    assert found.devices[1].seconds == pytest.approx([3.0, 1.0, 1.0, 1.0])
    per_byte = (0.05 + 8e-6 * SIZE / 2) / SIZE  # one size: the latency is in the byte rate
    assert found.devices[2].link.up_mbps == pytest.approx(8e-6 / per_byte)
    assert found.devices[2].link.latency == 0
    run = write_run(tmp_path / "run", entries, ends, clients=4)
    assert simulated_rounds(run, written(run, tmp_path / "f.toml"), 4) == pytest.approx(
        [end - start for start, end in zip([0.0, *ends], ends, strict=False)], rel=1e-2
    )


def test_latency_and_byte_rates_where_sizes_differ():
    entries = [visit(0, 0, 100.0, 101.0)]
    for number, size in enumerate((1e5, 2e5, 4e5)):
        for site, target, mbps in ((0, -1, 2.0), (-1, 0, 16.0)):
            seconds = 0.3 + size * 8e-6 / mbps
            entries.append(Entry(what="send", site=site, target=target, number=number, end=seconds, bytes=size))
    found = fit(entries, 2)
    for device in found.devices:  # one that nobody measured is as the others are
        link = device.link
        assert (link.up_mbps, link.down_mbps, link.latency) == pytest.approx((2.0, 16.0, 0.3))
    assert not found.one_size and found.devices[1].borrowed and found.devices[1].seconds == pytest.approx((1.0,))


def test_what_a_transfer_takes_more_than_usual_is_the_visits():
    """A worker that is busy with another device: the trip is as long as it was, whoever is to blame."""
    entries = []
    for number, late in enumerate((0.0, 5.0, 0.0)):
        at = 100.0 * number
        entries.append(Entry(what="send", site=-1, target=0, number=number, start=at, end=at + 1, bytes=1e6))
        entries.append(visit(0, number, at + 1, at + 3))
        end = at + 4 + late
        entries.append(Entry(what="send", site=0, target=-1, number=number, start=at + 3, end=end, bytes=1e6))
    found = fit(entries, 1).devices[0]
    assert found.seconds == pytest.approx((2.0, 7.0, 2.0))
    assert (found.link.up_mbps, found.link.down_mbps) == pytest.approx((8.0, 8.0))


def test_absences_become_a_duty_cycle_and_other_losses_a_probability(tmp_path):
    entries = [
        Entry(what="online", site=0, end=5.0),  # it came late, once: that is no absence
        Entry(what="offline", site=1, end=20.0),
        Entry(what="online", site=1, end=30.0),
        Entry(what="offline", site=1, end=80.0),  # and did not come back
        visit(0, 0, 5.0, 50.0),
        visit(0, 1, 50.0, 60.0, outcome="refused"),
        visit(0, 2, 60.0, 99.0),
        visit(0, 3, 99.0, 100.0),
        visit(1, 0, 0.0, 15.0),
        visit(1, 1, 15.0, 20.0, outcome="lost", dropped=1),  # it went: its absence says so already
    ]
    found = fit(entries, 2)
    assert [device.availability for device in found.devices] == ["dropout:0.25", "duty:50,0.7"]
    assert [device.lost for device in found.devices] == [1, 0]
    assert found.devices[1].away_share(found.span) == pytest.approx(0.3)
    assert found.server is None and not found.linked
    path = tmp_path / "fleet.toml"
    path.write_text(as_toml(found, "a run"))
    fleet = build_fleet(FleetSettings(file=str(path)), 2, seed=0)
    assert [fleet.compute.cost(0, number, 1.0).seconds for number in range(4)] == [45, 39, 1, 39]
    there = fleet.availability.next_online(1, 0.0)
    assert fleet.availability.online_until(1, there) < math.inf


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "no visit"),
        ([visit(0, 0, 0.0, 1.0, outcome="lost")], "no visit"),
        ([visit(7, 0, 0.0, 1.0)], "names device 7, but there were 2"),
        ([visit(0, 0, 0.0, math.nan)], "damaged"),
        ([visit(0, 0, "0", 1.0)], "damaged"),
        ([visit(0, 0, 2.0, 1.0)], "ends before it begins"),
    ],
)
def test_journals_that_say_nothing_of_use(entries, said):
    with pytest.raises(DataError, match=said):
        fit(entries, 2)


def test_an_algorithm_of_peers(tmp_path):
    """Models that devices send each other take the time of both ends."""
    entries, ends, now, size = [], [], 0.0, SIZE / 2  # DFedAvgM sends 16 bits a number
    for number in range(3):
        for k in range(2):
            entries.append(visit(k, number, now, now + 1 + k))
            entries.append(
                Entry(what="send", site=k, target=1 - k, number=number, start=now + 2, end=now + 3, bytes=size)
            )
        now += 3
        ends.append(now)
    run = write_run(tmp_path / "run", entries, ends, clients=2, algorithm="dfedavgm")
    found = measure(run)
    assert found.devices[0].link.up_mbps == pytest.approx(8e-6 * size)
    assert simulated_rounds(run, written(run, tmp_path / "f.toml"), 3) == pytest.approx([3.0] * 3, rel=1e-2)


@pytest.mark.slow
def test_a_run_on_real_processes_is_as_long_as_it_was(tmp_path):
    """Also on a busy machine; how well the next run is predicted there is measured by ``benchmarks.calibration``."""
    words = ["clients=4", "partition=powerlaw:1.5", "local.epochs=10", "rounds=10"]
    command = [sys.executable, "-m", "paceline", "run", "fedavg", "--world", "local", "--workers", "2", "--quiet"]
    command += [word for setting in words for word in ("--set", setting)]
    subprocess.run([*command, "--out", str(tmp_path / "run")], check=True, capture_output=True)
    found = predict(tmp_path / "run", written(tmp_path / "run", tmp_path / "fleet.toml"))
    assert found.rounds == 10 and found.ratio == pytest.approx(1, abs=0.2)


def test_the_file_says_where_it_is_from(tmp_path):
    entries, ends = Machines(SPEEDS, seed=0).rounds(2)
    run = write_run(tmp_path / "tuesday", entries, ends, clients=4)
    text = as_toml(measure(run), run.name)
    assert "# Measured in tuesday by" in text and "one size" in text
    tree = tomllib.loads(text)
    assert tree["server"]["seconds"] > 0 and len(tree["device"]) == 4
    assert set(tree["device"][0]) == {"device", "seconds", "up_mbps", "down_mbps", "latency"}
