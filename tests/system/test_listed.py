"""A fleet in one file."""

import math
import time

import pytest

import paceline
from paceline.errors import DataError, SettingError
from paceline.system import FleetSettings, build_fleet
from paceline.system.listed import read_fleet
from paceline.system.traces import read_traces

CSV = """device,seconds,up_mbps,down_mbps,latency,watts,availability
a,4,8,80,0.5,2,always
b,1,16,80,0.25,4,"duty:10,0.5"
"""
TOML = """
[[device]]
count = 3
flops = 1e9
[[device]]
flops = 4e9
"""


def written(tmp_path, text, name="fleet.csv"):
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


def test_devices_are_as_listed(tmp_path):
    fleet = build_fleet(FleetSettings(file=written(tmp_path, CSV), jitter=0), 2, seed=0)
    assert [fleet.compute.cost(k, 0, 1.0) for k in (0, 1)] == [(4.0, 8.0), (1.0, 4.0)]
    assert fleet.links.cost(0, -1, 1e6, 0.0).seconds == pytest.approx(1.0 + 0.5)
    assert fleet.links.cost(-1, 1, 1e6, 0.0).seconds == pytest.approx(0.1 + 0.25)
    assert fleet.links.cost(0, 1, 1e6, 0.0).seconds == pytest.approx(1.0 + 0.75)
    assert fleet.availability.online_until(0, 0.0) == math.inf
    there = fleet.availability.next_online(1, 0.0)
    assert fleet.availability.online_until(1, there) - there <= 5.0


def test_toml_tables_stand_for_several_devices(tmp_path):
    path = written(tmp_path, TOML, "fleet.toml")
    fleet = build_fleet(FleetSettings(file=path, jitter=0), 4, seed=0)
    assert [fleet.compute.mean_seconds(k, 4e9) for k in range(4)] == [4, 4, 4, 1]


def test_fewer_devices_than_clients_unless_repeated(tmp_path):
    path = written(tmp_path, CSV)
    with pytest.raises(SettingError, match=r"lists 2 devices, but there are 5 clients.*repeat"):
        build_fleet(FleetSettings(file=path), 5, seed=0)
    fleet = build_fleet(FleetSettings(file=f"{path},repeat", jitter=0), 5, seed=0)
    assert [fleet.compute.mean_seconds(k, 1.0) for k in range(5)] == [4, 1, 4, 1, 4]
    assert paceline.make_settings("fedavg", [f"fleet.file={path}"]).clients == 2
    assert paceline.make_settings("fedavg", [f"fleet.file={path},repeat", "clients=7"]).clients == 7


def test_a_dry_run_on_a_file(tmp_path):
    path = written(tmp_path, "seconds\n3\n1\n")
    assert paceline.dry("fedavg", path, rounds=4, absence="wait").totals.visits == 8


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("seconds,flops\n1,2\n", "both seconds and flops"),
        ("up_mbps\n1\n", "only one of up_mbps and down_mbps"),
        ("watts\n1\n", "neither seconds nor flops"),
        ("secnds\n1\n", "no column 'secnds'.*seconds"),
        ("seconds\n0\n", "row 2: seconds is 0"),
        ("seconds\nfast\n", "wanted a number"),
        ("seconds\n", "no rows"),
        ("availability\nduty:10\n", "duty"),
        ('availability\n"vanish:0.5,3"\n', "rule for a whole fleet"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, complaint):
    with pytest.raises(DataError, match=complaint):
        read_fleet(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no devices"),
        ("device = 3", "has no devices"),
        ("[[device]]\nseconds = 'x'", "wanted a finite number above 0"),
        ("[[device]]\nseconds = nan", "wanted a finite number above 0"),
        ("[[device]]\ncount = 0\nseconds = 1", "count is 0"),
        ("[[device]]\nspeed = 1", "no key 'speed'"),
        ("[[device]]\nseconds = 1\n[[device]]\nflops = 1", "same keys"),
        ("[[device]", "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_in_toml_is_said(tmp_path, text, complaint):
    with pytest.raises(DataError, match=complaint):
        read_fleet(written(tmp_path, text, "fleet.toml"))


def test_listed_latencies_with_shared_links_are_refused_with_advice_that_helps(tmp_path):
    listed = written(tmp_path, "device,up_mbps,down_mbps,latency\na,1,2,0.1\n")
    with pytest.raises(SettingError, match=r"fleet\.csv has latencies.* remove its column latency"):
        build_fleet(FleetSettings(file=listed, sharing="fair"), 1, 0)
    assert build_fleet(FleetSettings(file=listed), 1, 0).network is None
    without = written(tmp_path, "device,up_mbps,down_mbps\na,1,2\n")
    assert build_fleet(FleetSettings(file=without, sharing="fair"), 1, 0).network is not None


def test_a_file_that_is_not_there():
    for name in ("nowhere.csv", "nowhere.toml"):
        with pytest.raises(DataError, match="there is no file"):
            read_fleet(name)


MEASURED = """
[server]
seconds = 0.5
[[device]]
seconds = [3.0, 1.0, 2.0]
[[device]]
seconds = 4
[[device]]
seconds = [5]
"""


def test_measured_times_come_one_after_the_other(tmp_path):
    path = written(tmp_path, MEASURED, "fleet.toml")
    fleet = build_fleet(FleetSettings(file=path, jitter=0.5), 3, seed=0)
    assert [fleet.compute.cost(0, visit, 1.0).seconds for visit in range(6)] == [3, 1, 2, 1, 2, 1]
    assert fleet.compute.mean_seconds(0, 1.0) == 1.5
    assert [fleet.compute.cost(2, visit, 1.0).seconds for visit in range(3)] == [5, 5, 5]
    assert fleet.compute.cost(1, 0, 1.0).seconds != 4  # a mean takes the jitter
    assert fleet.work(1.0).seconds == 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[device]]\nseconds = []\n", "lists 0 times"),
        ("[[device]]\nseconds = [1, 0]\n", "seconds is 0"),
        ("[[device]]\nseconds = [1, '2']\n", "seconds is '2'"),
        ("[[device]]\nup_mbps = [1]\ndown_mbps = 1\n", r"up_mbps is \[1\]"),
        ("[server]\nseconds = -1\n[[device]]\nseconds = 1\n", r"\[server\]: seconds is -1"),
        ("[server]\nwatts = 1\n[[device]]\nseconds = 1\n", "wanted one key, seconds"),
        ("server = 3\n[[device]]\nseconds = 1\n", "wanted one key, seconds"),
        ("[sever]\nseconds = 1\n[[device]]\nseconds = 1\n", "there is no 'sever'"),
    ],
)
def test_measured_times_that_are_none(tmp_path, text, said):
    with pytest.raises(DataError, match=said):
        read_fleet(written(tmp_path, text, "fleet.toml"))


def test_a_file_that_has_changed_is_read_again(tmp_path, monkeypatch):
    for folder, seconds in (("a", "1\n"), ("b", "22\n")):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        (tmp_path / folder / "fleet.csv").write_text(f"seconds\n{seconds}")
        assert read_fleet("fleet.csv").numbers["seconds"] == (float(seconds),)
    assert read_fleet("fleet.csv") is read_fleet("fleet.csv"), "once, as long as it is the same"
    (tmp_path / "b/fleet.csv").write_text("seconds\n3\n")
    assert read_fleet("fleet.csv").numbers["seconds"] == (3.0,)


def test_a_long_header_and_short_rows_take_no_room(tmp_path):
    """A dictionary a row, with every column of the header, took seconds and gigabytes."""
    path = tmp_path / "wide.csv"
    path.write_text(
        "t_s,mbps," + ",".join(f"c{k}" for k in range(30_000)) + "\n" + "".join(f"{k},5\n" for k in range(9_000))
    )
    began = time.perf_counter()
    (only,) = read_traces(path).values()
    assert time.perf_counter() - began < 5
    assert only.up.duration == 9_000


def test_a_column_that_is_there_twice_is_named(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("seconds,watts,seconds\n1,2,3\n")
    with pytest.raises(DataError, match="row 1: the column 'seconds' is there twice"):
        read_fleet(str(path))
