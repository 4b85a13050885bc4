"""What Paceline adds to Flower's own time, and how well one run's times predict the next one's.

These are times of this machine, so it should have little else to do meanwhile.
"""

import pytest
from benchmarks.federation import compare

pytestmark = [pytest.mark.slow, pytest.mark.federation, pytest.mark.timeout(900)]


def test_a_trip_takes_little_more_than_flowers_own_and_rounds_are_predicted(tmp_path):
    found = compare(tmp_path, nodes=3, rounds=10, settings=[])
    print(f"\n{found.added:+.2f} s a trip; predicted rounds x{found.ratio:.3f}")
    assert len(found.bare) == 15 and len(found.ours) == 54
    assert len(found.predicted) == len(found.measured) == 10
    assert found.added < 2.0
    assert 0.8 < found.ratio < 1.2
