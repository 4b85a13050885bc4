"""Every public function refuses every argument of a wrong kind in words, and before it does anything."""

import asyncio
import inspect
import re
import types

import numpy as np
import pytest
import torch

import paceline
from paceline.errors import PacelineError, SettingError
from paceline.kinds import checked
from paceline.learn.graph import Model
from paceline.runs.problem import make_space
from paceline.system import build_fleet

MODEL = Model(make_space("logistic", (1,), 2, "float32"), torch.zeros(4))
VALUES = {
    "none": None, "int": 3, "float": 2.5, "bool": True, "str": "fedavg", "bytes": b"x", "list": [object()],
    "dict": {object(): 1}, "set": {1}, "object": object(), "array": np.zeros(3), "generator": (x for x in ()),
}  # fmt: skip
FITTING = {
    "None": "none", "int": "int", "float": "int float", "bool": "bool", "str": "str", "Address": "int str",
    "Mapping": "dict", "Tree": "dict", "Any": " ".join(VALUES), "Method": "str", "FleetLike": "str dict",
    "Iterable": "generator",
}  # fmt: skip
"""Which of the values may be of the kind that a word of an annotation names."""
RIGHT = {
    "mean": {"models": [MODEL]},
    "combine": {"terms": [(1.0, MODEL)]},
    "to_groupnorm": {"model": torch.nn.Linear(2, 2)},
    "make_settings": {"name": "fedavg"},
    "dry": {"algorithm": "fedavg"},
    "run": {"algorithm": "fedavg"},
    "compare": {"algorithms": ["fedavg"]},
    "sweep": {"algorithm": "fedavg", "over": {"rounds": [1]}},
    "resume": {"directory": "nowhere"},
    "load": {"directory": "nowhere"},
    "reproduce": {"name": "pfedavg-p"},
    "plan_structure": {"participants": 20, "time_mean": 2.5, "time_std": 1.0, "ratio": 0.3},
    "plan_overlap": {"t_local": 10, "t_comm": 2, "t_wait": 0, "t_aggregate": 10},
    "plan_mixing": {"graph": "ring:9"},
    "plan_fleet": {"fleet": "nowhere.csv"},
}
FUNCTIONS = [name for name in paceline.__all__ if isinstance(getattr(paceline, name), types.FunctionType)]
COMPARED = inspect.signature(paceline.compare).parameters
FURTHER = {
    "run": COMPARED, "sweep": COMPARED,
    "plan_overlap": {"devices": "int", "dropout": "float", "jitter": "float"},
    "plan_peers": {"clients": "int", "neighbours": "int | None", "topology": "str", "time": "float"},
    "plan_servers": {"clients": "int", "participants": "int", "megabits": "float", "server": "float"},
}  # fmt: skip
"""Arguments that a function hands on."""


def wrong_ones():
    for name in FUNCTIONS:
        own = {
            key: one.annotation
            for key, one in inspect.signature(getattr(paceline, name)).parameters.items()
            if one.kind is not one.VAR_KEYWORD
        }
        handed = {key: getattr(one, "annotation", one) for key, one in FURTHER.get(name, {}).items()}
        for argument, kind in {**handed, **own}.items():
            fitting = {value for word in re.findall(r"\w+", kind) for value in FITTING.get(word, "").split()}
            inside = {"list"} if "[Any" in kind else set()
            for value in VALUES.keys() - fitting - inside:
                if (name, argument) not in {("run", "algorithms"), ("sweep", "algorithms"), ("sweep", "algorithm_")}:
                    yield name, argument, value


class Given(dict):
    def __repr__(self):
        return "given"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_of_a_wrong_kind_is_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside = []
    for _, argument, value in (one for one in wrong_ones() if one[0] == name):
        try:
            if name in ("visit", "draw_clients", "start_pool"):
                in_a_world(name, argument, VALUES[value])
            else:
                getattr(paceline, name)(**{**RIGHT.get(name, {}), argument: VALUES[value]})
        except PacelineError as problem:
            if argument.rstrip("s") not in str(problem):
                inside.append(f"{argument} as {value}: {problem}")
        except Exception as problem:
            inside.append(f"{argument} as {value}: {type(problem).__name__}: {problem}")
        else:
            inside.append(f"{argument} as {value} is accepted")
    assert inside == []
    assert not any(tmp_path.iterdir())


def in_a_world(name, argument, value):
    """Call what an algorithm calls, where it calls it; its problem comes back as it was."""
    found = []

    class Caller(paceline.Algorithm):
        rounds, local = 1, paceline.LocalSGD()

        async def run(self, world):
            right = {
                "visit": {"client": 0, "model": MODEL, "recipe": self.local},
                "draw_clients": {"count": 1},
                "start_pool": {"concurrency": 1, "local": self.local, "rounds": 1},
            }[name]
            arguments = {"world": world, **right, argument: value}
            path = [arguments.pop("path")] if "path" in arguments else []
            try:
                first = [arguments.pop("world"), arguments.pop("count")] if path else []
                made = getattr(paceline, name)(*first, *path, **arguments)
                if asyncio.iscoroutine(made):
                    made.close()
            except Exception as problem:
                found.append(problem)
            yield paceline.Progress(world.initial_model())

    paceline.dry(Caller(), clients=2)
    if found:
        raise found[0]


def test_there_are_hundreds_of_them():
    assert len(list(wrong_ones())) > 488


def test_what_fits_is_let_through():
    assert paceline.plan_structure(np.int64(20), time_mean=np.float32(2.5), time_std=1, ratio=0.3).W
    assert paceline.mean((MODEL, MODEL), torch.ones(2)).space is MODEL.space
    assert paceline.dry("fedavg", build_fleet(paceline.FleetSettings(), 5, 0), rounds=1).times
    assert (
        str(inspect.signature(paceline.load))
        == "(directory: 'str | PathLike[str]', *, trust: 'bool' = False) -> 'Result'"
    )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: paceline.load(None), "directory is None, but must be text or a path"),
        (lambda: paceline.dry(3), "algorithm is 3, but must be"),
        (lambda: paceline.mean(3), r"models is 3, but must be a list \(each a Model\)"),
        (lambda: paceline.compare("fedavg"), r"give a list: \['fedavg'\]"),
        (
            lambda: paceline.plan_servers(["ring"], [4], clints=3),
            "unknown argument 'clints'; did you mean 'clients'?",
        ),
        (lambda: paceline.plan_servers(["ring"], [4], clients="3"), "clients is '3', but must be a whole number"),
    ],
)
def test_the_error_names_argument_value_and_kind(call, said):
    with pytest.raises(SettingError, match=said):
        call()


def test_a_function_is_checked_once():
    assert checked(paceline.compare) is paceline.compare


def test_a_dry_run_takes_the_settings_of_a_run():
    words = {"clients": 8, "rounds": 3, "model": "mlp:20", "partition": "iid"}
    slow = {"fleet.times": "uniform:1,4", "fleet.links": "rate:1,1", "faults": "lost:0.4"}
    ran = paceline.run("fedavg@width=4", dry=True, settings=slow, **words)
    assert paceline.dry("fedavg@width=4", settings=slow, **words).times == [row["time"] for row in ran.rows("fedavg")]
    given = {key[6:]: value for key, value in slow.items() if "." in key}
    more = {"faults": "lost:0.4", **words}
    assert paceline.dry(lambda: paceline.PSFL(length=1, width=4, sampler="uniform"), given, **more).seconds > 0
    with pytest.raises(SettingError, match="did you mean 'partition'"):
        paceline.dry("fedavg", partitio="iid")
    with pytest.raises(SettingError, match="a Fleet, problem and ledger replace settings"):
        paceline.dry("fedavg", build_fleet(paceline.FleetSettings(), 5, 0), partition="iid")


@pytest.mark.parametrize("wrong", [int, dict, object])
@pytest.mark.parametrize("rounds", [{}, {"rounds": 2}])
def test_a_dry_run_of_what_is_no_algorithm_is_refused(wrong, rounds):
    with pytest.raises(SettingError, match="is not an algorithm"):
        paceline.dry(wrong, clients=5, **rounds)


@pytest.mark.parametrize(
    "value", [np.int64(2), object(), b"x", {1}, [object()]], ids=["number", "object", "bytes", "set", "list"]
)
def test_a_setting_of_a_plan_that_no_word_can_say_is_named(value, tmp_path):
    (tmp_path / "fleet.csv").write_text("device,seconds\na,1\nb,2\nc,3\n")
    with pytest.raises(SettingError, match=r"local\.epochs is "):
        paceline.plan_fleet(tmp_path / "fleet.csv", settings={"local.epochs": value})
