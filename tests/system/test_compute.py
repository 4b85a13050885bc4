"""Training times: the jitter, the FLOP model, measured times; all by address."""

import math
import random

import numpy as np
import pytest

from paceline.errors import CostError, DataError, SettingError
from paceline.system import Compute, Constant, Cost, FlopTimes, LawTimes, MeasuredTimes
from paceline.system.compute import Jitter

MEASURED = "device,seconds\nphone,1.5\ntablet,4\nphone,2.5\nphone,3.5\n"


@pytest.fixture
def measured(tmp_path):
    path = tmp_path / "times.csv"
    path.write_text(MEASURED)
    return path


def write(tmp_path, text):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    return path


def test_jitter_is_normal_around_the_mean_time_of_the_device():
    """Four moments of N(1, 0.2²), each within 5 standard errors: false-alarm rate below 3e-6."""
    times = LawTimes(law="discrete", seed=3)
    visits = 20_000
    mean = times.mean_seconds(7, math.nan)
    scaled = (np.array([times.cost(7, visit, math.nan).seconds for visit in range(visits)]) / mean - 1) / 0.2
    assert abs(scaled.mean()) < 5 / math.sqrt(visits)
    assert abs((scaled**2).mean() - 1) < 5 * math.sqrt(2 / visits)
    assert abs((scaled**3).mean()) < 5 * math.sqrt(15 / visits)
    assert abs((scaled**4).mean() - 3) < 5 * math.sqrt(96 / visits)


def test_a_wild_jitter_is_floored_at_a_share_of_the_mean():
    times = LawTimes(law="constant:0.001", seed=3, jitter=2.0, floor=0.1)
    seconds = [times.cost(0, visit, 0.0).seconds for visit in range(2000)]
    assert min(seconds) == pytest.approx(0.0001)
    assert max(seconds) > 0.003


def test_no_jitter_is_the_mean_itself():
    times = LawTimes(law="gaussian", seed=3, jitter=0.0)
    assert [times.cost(d, 5, 0.0).seconds for d in range(50)] == [times.mean_seconds(d, 0.0) for d in range(50)]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: LawTimes(law="exponential", seed=seed, watts=3.0),
        lambda seed: FlopTimes(rate="lognormal,5e9,0.5", seed=seed, jitter=0.2, watts=3.0),
    ],
)
def test_costs_depend_on_the_address_and_not_on_the_order_of_calls(make):
    places = [(device, visit) for device in range(20) for visit in range(5)]
    first = {place: make(1).cost(*place, 1e9) for place in places}
    random.Random(0).shuffle(places)
    again = make(1)
    assert {place: again.cost(*place, 1e9) for place in places} == first
    other = make(2)
    assert all(other.cost(*place, 1e9) != cost for place, cost in first.items())
    assert len(set(first.values())) == len(places)


def test_visits_of_different_devices_have_unrelated_jitter():
    """The correlation of 20,000 pairs has standard error 0.0071; 5 of them, false-alarm rate 6e-7."""
    jitter = Jitter(123, 0.2, 0.05)
    pairs = np.array([(jitter.factor(4, visit), jitter.factor(5, visit)) for visit in range(20_000)])
    assert abs(np.corrcoef(pairs.T)[0, 1]) < 5 / math.sqrt(20_000)


def test_energy_is_watts_times_seconds_or_undefined():
    with_watts = LawTimes(law="uniform", seed=1, watts=8.0).cost(3, 4, 0.0)
    assert with_watts.joules == 8.0 * with_watts.seconds
    without = LawTimes(law="uniform", seed=1).cost(3, 4, 0.0)
    assert without.seconds == with_watts.seconds
    assert math.isnan(without.joules)


def test_flop_times_are_those_of_the_da_dpfl_cost_model():
    """DA-T6: T_comp = 5 FLOP / 80e12 and C_comp = 450 T_comp, for 8.3e12 training FLOPs."""
    gpu = FlopTimes(rate=80e12, watts=450.0)
    assert gpu.cost(0, 0, 5 * 8.3e12) == Cost(pytest.approx(41.5e12 / 80e12), pytest.approx(450 * 41.5 / 80))
    assert gpu.mean_seconds(9, 160e12) == 2.0


@pytest.mark.parametrize("flops", [math.nan, 0.0, -1.0, math.inf])
def test_a_flop_count_that_nobody_defined_is_an_error(flops):
    with pytest.raises(CostError, match="device 3 counts"):
        FlopTimes(rate=1e9).cost(3, 0, flops)


def test_measured_times_go_around_the_rows_of_each_device(measured):
    times = MeasuredTimes(measured, watts=2.0)
    assert [times.cost(0, visit, 0.0).seconds for visit in range(5)] == [1.5, 2.5, 3.5, 1.5, 2.5]
    assert times.cost(1, 8, 0.0) == Cost(4.0, 8.0)
    assert times.mean_seconds(0, 0.0) == 2.5


def test_devices_beyond_the_file_borrow_one_of_it(measured):
    """With two devices in the file, 60 that all borrow the same one would be a 2^-59 accident."""
    times = MeasuredTimes(measured, seed=5)
    means = [times.mean_seconds(device, 0.0) for device in range(2, 62)]
    assert set(means) == {2.5, 4.0}
    assert all(
        times.cost(device, 0, 0.0).seconds == (1.5 if mean == 2.5 else 4.0) for device, mean in enumerate(means, 2)
    )


def test_bootstrap_draws_rows_at_the_address(measured):
    """Counts of three equiprobable rows in 3000 visits: chi-square(2) over 27.6 has probability 1e-6."""
    times = MeasuredTimes(measured, seed=5, bootstrap=True)
    visits = [times.cost(0, visit, 0.0).seconds for visit in range(3000)]
    counts = [visits.count(value) for value in (1.5, 2.5, 3.5)]
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 27.6
    assert visits == [MeasuredTimes(measured, seed=5, bootstrap=True).cost(0, v, 0.0).seconds for v in range(3000)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("device,secs\na,1\n", r"row 1: no column 'seconds'"),
        ("device,seconds\na,1\nb,fast\n", r"row 3: seconds is 'fast'"),
        ("device,seconds\na,0\n", r"row 2: seconds is 0; wanted a finite number above 0"),
        ("device,seconds\na,1\na,-3\n", r"row 3: seconds is -3"),
        ("device,seconds\na,nan\n", r"row 2: seconds is nan"),
        ("device,seconds\na,inf\n", r"row 2: seconds is inf"),
        ("device,seconds\na,1\nb\n", r"row 3: seconds is empty"),
        ("device,seconds\n,1\n", r"row 2: device is empty"),
        ("device,seconds\n", r"no rows"),
        ("", r"row 1: no column 'device'"),
    ],
)
def test_a_bad_file_is_an_error_that_names_the_row(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        MeasuredTimes(write(tmp_path, text))


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        MeasuredTimes(tmp_path / "none.csv")


def test_bad_settings_are_named():
    with pytest.raises(SettingError, match="jitter is -1"):
        LawTimes(law="discrete", seed=0, jitter=-1)
    with pytest.raises(SettingError, match="floor of the jitter is 0"):
        LawTimes(law="discrete", seed=0, floor=0)
    with pytest.raises(SettingError, match="watts is nan"):
        FlopTimes(rate=Constant(1e9), watts=math.nan)


def test_the_classes_are_computes(measured):
    every: list[Compute] = [LawTimes(law="discrete", seed=0), FlopTimes(rate=1e9), MeasuredTimes(measured)]
    for compute in every:
        assert compute.cost(0, 0, 1e9).seconds > 0
        assert compute.mean_seconds(0, 1e9) > 0
