"""Three weightings of four graphs: what is predicted, and how it is compared."""

from paceline.papers.pfedavg.weighted import WEIGHTS, compared_rows, weightings


def test_what_all_modes_predict_of_the_weightings():
    """Those solved for by all modes come first everywhere; p's own are behind Metropolis's on torus and ring."""
    for name, those in weightings().items():
        order = sorted(those, key=lambda one: one.mixing.lasting)
        second = "metropolis" if name in ("torus", "ring") else "optimal"
        assert [one.weights for one in order][:2] == ["all-modes", second]
        assert max(those, key=lambda one: one.mixing.p).weights == "optimal"


def test_rows_say_who_predicted_what():
    overlays = {one.weights: one for one in weightings()["ring"]}
    means = {
        rule: {seed: level + 0.01 * seed for seed in range(6)} for rule, level in zip(WEIGHTS, (3, 1, 2), strict=True)
    }
    means["optimal"][0] += 0.005  # equal gaps would tell nothing
    rows = {row.name: row for row in compared_rows("here", means, overlays)}
    assert rows["here: all-modes - optimal"].ok is True
    assert rows["here: all-modes - optimal"].note == "predicted above 0 by all modes, below 0 by p"
    assert rows["here: metropolis - optimal"].note == "predicted above 0 by all modes, below 0 by p"
    assert rows["here: all-modes - metropolis"].note == "predicted above 0 by all modes, above 0 by p"
