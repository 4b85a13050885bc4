"""Which networks cannot be trained here, and the conversion to GroupNorm."""

import pytest
import torch
from torch import nn

import paceline
from paceline.errors import ModelError
from paceline.learn.models import MODELS, build, check_trainable, to_groupnorm


def batchnormed():
    return nn.Sequential(
        nn.Conv2d(3, 48, 3, padding=1),
        nn.BatchNorm2d(48, eps=1e-3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 24),
        nn.BatchNorm1d(24),
        nn.Linear(24, 10),
    )


class Counting(nn.Module):
    def __init__(self, in_place):
        super().__init__()
        self.in_place = in_place
        self.layer = nn.Linear(4, 2)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        if self.in_place:
            self.seen += len(x)
        else:
            self.seen = self.seen + len(x)
        return self.layer(x * self.scale)


@pytest.mark.parametrize("name", MODELS)
def test_our_own_networks_pass(name):
    check_trainable(build(name, (3, 32, 32), 10), (3, 32, 32))


def test_every_batchnorm_is_named_with_the_way_out():
    with pytest.raises(ModelError) as caught:
        check_trainable(batchnormed())
    text = str(caught.value)
    assert "1 (BatchNorm2d)" in text
    assert "6 (BatchNorm1d)" in text
    assert text.count("to_groupnorm(model)") == 2


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (nn.Sequential(nn.LazyLinear(3)), "0 .LazyLinear.*send one batch"),
        (nn.Sequential(nn.LazyBatchNorm2d()), "0 .LazyBatchNorm2d.*send one batch"),
        (nn.Sequential(nn.Flatten()), "no parameter"),
        (nn.Linear(2, 2).requires_grad_(False), "no parameter"),
        (
            nn.InstanceNorm2d(3, affine=True, track_running_stats=True),
            "the network itself.*track_running_stats=False",
        ),
        (nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), "remove_parametrizations"),
    ],
)
def test_other_offenders_are_named(model, complaint):
    with pytest.raises(ModelError, match=complaint):
        check_trainable(model)


def test_frozen_parameters_are_refused_by_name():
    """Every parameter is trained and sent: a frozen one would move and be charged for all the same."""
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    with pytest.raises(
        ModelError, match=r"0\.weight, 0\.bias: requires_grad is False.*requires_grad_\(True\)"
    ) as told:
        check_trainable(model)
    assert "2.weight" not in str(told.value)


def test_a_frozen_part_is_refused_before_a_run_begins(tmp_path):
    """With every trainer, for none is asked."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8).requires_grad_(False), nn.ReLU(), nn.Linear(8, 10))
    for trainer in ("cohort", "reference"):
        with pytest.raises(ModelError, match=r"1\.weight, 1\.bias"):
            paceline.run(
                "fedavg",
                model=net,
                clients=4,
                rounds=1,
                partition="iid",
                out=tmp_path / trainer,
                settings={"executor.name": trainer},
            )
        assert not (tmp_path / trainer).exists()


@pytest.mark.parametrize("in_place", [True, False])
def test_a_buffer_that_forward_changes_is_found_and_a_constant_one_is_not(in_place):
    model = Counting(in_place)
    with pytest.raises(ModelError, match="buffer seen: forward changes it") as caught:
        check_trainable(model, (4,))
    assert "scale" not in str(caught.value)
    assert model.seen == 0, "the check itself must leave no trace"


def test_the_check_draws_nothing_from_the_global_generator():
    model = nn.Sequential(nn.Dropout(0.5), Counting(True))
    state = torch.get_rng_state()
    with pytest.raises(ModelError, match=r"1\.seen"):
        check_trainable(model, (4,))
    assert torch.equal(torch.get_rng_state(), state)


def test_conversion_leaves_the_original_alone_and_passes_the_check():
    model = batchnormed()
    converted = to_groupnorm(model)
    check_trainable(converted, (3, 8, 8))
    assert isinstance(model[1], nn.BatchNorm2d)
    assert converted[1].num_groups == 24  # the largest divisor of 48 up to 32
    assert converted[1].eps == 1e-3
    assert converted[6].num_groups == 3  # 24 channels, at least 8 in a group
    assert not {id(p) for p in model.parameters()} & {id(p) for p in converted.parameters()}


def test_conversion_keeps_scale_shift_mode_and_shared_modules():
    norm = nn.BatchNorm2d(8)
    nn.init.constant_(norm.weight, 3.0)
    nn.init.constant_(norm.bias, -1.0)
    converted = to_groupnorm(nn.Sequential(norm, nn.ReLU(), norm).eval(), groups=4)
    assert converted[0] is converted[2]
    assert converted[0].weight.tolist() == [3.0] * 8
    assert converted[0].bias.tolist() == [-1.0] * 8
    assert not converted[0].training


def test_a_converted_dense_network_still_tells_inputs_apart():
    """A GroupNorm of one value per group would send every input to the same output."""
    torch.manual_seed(0)
    model = to_groupnorm(nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.Linear(16, 2)))
    out = model(torch.randn(2, 5))
    assert not torch.allclose(out[0], out[1])


def test_a_network_that_is_one_batchnorm_and_norms_without_scale():
    assert isinstance(to_groupnorm(nn.BatchNorm2d(6)), nn.GroupNorm)
    assert not list(to_groupnorm(nn.BatchNorm2d(6, affine=False)).parameters())


@pytest.mark.parametrize(
    ("model", "groups", "complaint"),
    [(nn.BatchNorm2d(4), 0, "groups is 0"), (nn.BatchNorm1d(1), 32, "1 channels has no GroupNorm")],
)
def test_impossible_conversions_are_refused(model, groups, complaint):
    with pytest.raises(ModelError, match=complaint):
        to_groupnorm(model, groups)
