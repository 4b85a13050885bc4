"""Settings from words: what is understood, what is refused, and what the refusal says."""

import json
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.config import (
    apply,
    convert,
    merge,
    parse_override,
    read_settings,
    to_tree,
)
from paceline.errors import PacelineError, SettingError
from paceline.learn.recipe import LocalSGD
from paceline.runs.making import make_run
from paceline.runs.settings import make_settings


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.1
    clip: float | None = None
    batch: int = 20
    augment: Literal["none", "crop-flip"] = "crop-flip"


@dataclass(frozen=True, kw_only=True)
class Outer:
    seed: int = 0
    name: str = "psfl"
    quick: bool = False
    note: str | None = None
    inner: Inner = field(default_factory=Inner)
    derived: int = field(default=0, init=False)


def settled(*overrides):
    settings = Outer()
    for text in overrides:
        settings = apply(settings, parse_override(text))
    return settings


# -- overrides ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("seed=3", {"seed": 3}),
        (" seed = 3 ", {"seed": 3}),
        ("inner.rate=0.5", {"inner": {"rate": 0.5}}),
        ("a.b.c=1e-3", {"a": {"b": {"c": 0.001}}}),
        ("quick=true", {"quick": True}),
        ("name=mlp:16", {"name": "mlp:16"}),
        ("name='quoted text'", {"name": "quoted text"}),
        ("name=step:0.1,50", {"name": "step:0.1,50"}),
        ("name=a=b", {"name": "a=b"}),
        ("list=[1, 2]", {"list": [1, 2]}),
        ("note=none", {"note": None}),
        ("note=None", {"note": None}),
        ("name=", {"name": ""}),
    ],
)
def test_overrides_are_read_as_toml_else_as_text(text, tree):
    assert parse_override(text) == tree


@pytest.mark.parametrize("text", ["seed", "=3", " =3", ""])
def test_what_is_no_override(text):
    with pytest.raises(SettingError, match="wanted name=value"):
        parse_override(text)


@given(
    st.lists(st.text("abcdefgh_", min_size=1, max_size=5), min_size=1, max_size=4),
    st.one_of(st.integers(-(2**60), 2**60), st.booleans(), st.floats(allow_nan=False)),
)
def test_any_dotted_path_and_value_comes_back(path, value):
    tree = parse_override(f"{'.'.join(path)}={str(value).lower()}")
    for part in path:
        assert list(tree) == [part]
        tree = tree[part]
    assert tree == value
    assert type(tree) is type(value)


def test_an_override_changes_its_own_setting_only():
    settings = settled("inner.rate=0.5", "seed=7")
    assert settings == Outer(seed=7, inner=Inner(rate=0.5))
    assert Outer() == Outer(seed=0), "the original is left alone"


def test_the_last_override_wins():
    assert settled("seed=1", "seed=2").seed == 2


# -- types --------------------------------------------------------------------------------------------------------


def test_whole_numbers_are_numbers():
    rate = settled("inner.rate=1").inner.rate
    assert rate == 1.0
    assert isinstance(rate, float)


def test_a_whole_float_is_a_whole_number():
    seed = settled("seed=1e3").seed
    assert seed == 1000
    assert isinstance(seed, int)


def test_a_number_is_text_where_text_is_wanted():
    assert settled("name=5").name == "5"


def test_none_where_it_may_be():
    assert settled("inner.clip=10", "inner.clip=none").inner.clip is None
    assert settled("inner.clip=10").inner.clip == 10.0
    assert settled("note=hello").note == "hello"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed=1.5", "seed is 1.5; wanted a whole number"),
        ("seed=inf", "seed is inf; wanted a whole number"),
        ("seed=true", "seed is True; wanted a whole number"),
        ("seed=none", "seed is None; wanted a whole number"),
        ("seed=many", "seed is 'many'; wanted a whole number"),
        ("inner.rate=true", "inner.rate is True; wanted a number"),
        ("inner.rate=fast", "inner.rate is 'fast'; wanted a number"),
        ("inner.clip=x", "inner.clip is 'x'; wanted a number"),
        ("quick=1", "quick is 1; wanted true or false"),
        ("quick=yes", "quick is 'yes'; wanted true or false"),
        ("inner=3", "inner is a group of settings; give inner.NAME=VALUE"),
        ("inner.augment=crop_flip", "inner.augment is 'crop_flip'; did you mean 'crop-flip'?"),
        ("inner.augment=7", "inner.augment is 7; known: crop-flip, none"),
    ],
)
def test_wrong_values_say_what_came_and_what_was_wanted(text, message):
    with pytest.raises(SettingError) as caught:
        settled(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("value", ["none", "crop-flip"])
def test_a_choice_from_a_file(value):
    assert apply(Outer(), {"inner": {"augment": value}}).inner.augment == value


def test_a_choice_called_none():
    assert settled("inner.augment=none").inner.augment == "none"


def test_the_text_none_where_none_may_not_be():
    assert settled("name=none").name == "none"


def test_true_is_no_choice_among_numbers():
    with pytest.raises(SettingError):
        convert(True, Literal[1, 2], "level")


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sead=1", "unknown setting 'sead'; did you mean 'seed'?"),
        ("inner.rte=1", "unknown setting 'inner.rte'; did you mean 'inner.rate'?"),
        ("zzz=1", "unknown setting 'zzz'; known: inner, name, note, quick, seed"),
        ("seed.x=1", "seed is {'x': 1}; wanted a whole number"),
        ("derived=1", "unknown setting 'derived'"),
        ("inner..rate=1", "unknown setting 'inner.'"),
    ],
)
def test_unknown_names_name_the_nearest(text, message):
    with pytest.raises(SettingError) as caught:
        settled(text)
    assert str(caught.value).startswith(message)


# -- trees --------------------------------------------------------------------------------------------------------

TREES = st.recursive(
    st.integers(), lambda inside: st.dictionaries(st.sampled_from("abc"), inside, max_size=3), max_leaves=8
).filter(lambda tree: isinstance(tree, dict))


def leaves(tree, path=()):
    if isinstance(tree, dict) and tree:
        return {k: v for key, value in tree.items() for k, v in leaves(value, (*path, key)).items()}
    return {path: tree}


@given(TREES, TREES)
def test_merge_keeps_both_and_the_second_wins(base, over):
    merged = merge(base, over)
    found = leaves(merged)
    for path, value in leaves(over).items():
        if value != {}:
            assert found[path] == value
    assert merge(base, {}) == base
    assert merge({}, over) == over
    assert merge(merged, over) == merged


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(),
        "inner": st.dictionaries(st.sampled_from(["rate", "clip"]), st.integers(), max_size=2),
        "other": st.dictionaries(st.sampled_from(["x", "y"]), st.integers(), max_size=2),
    },
)


@given(SETTINGS, SETTINGS, SETTINGS)
def test_merge_is_associative(a, b, c):
    """A preset, a file and the command line may be joined in any grouping (groups stay groups)."""
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


def test_merge_writes_to_neither():
    base, over = {"a": {"b": 1}}, {"a": {"c": 2}}
    assert merge(base, over) == {"a": {"b": 1, "c": 2}}
    assert (base, over) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_a_tree_and_back():
    settings = Outer(seed=4, note="n", inner=Inner(clip=2.0, augment="none"))
    tree = to_tree(settings)
    assert tree == {
        "seed": 4,
        "name": "psfl",
        "quick": False,
        "note": "n",
        "inner": {"rate": 0.1, "clip": 2.0, "batch": 20, "augment": "none"},
    }
    assert apply(Outer(), tree) == settings


# -- files --------------------------------------------------------------------------------------------------------


def test_a_settings_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('seed = 5\n[inner]\nrate = 1\naugment = "none"\n')
    assert apply(Outer(), read_settings(path, [])) == Outer(seed=5, inner=Inner(rate=1.0, augment="none"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingError, match=r"no settings file at .*nowhere\.toml"):
        read_settings(tmp_path / "nowhere.toml", [])


def test_a_damaged_file_is_named_with_the_place(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("seed = = 3\n")
    with pytest.raises(SettingError, match=r"bad\.toml is not valid TOML: .*line 1"):
        read_settings(path, [])


@pytest.mark.parametrize("kind", ["directory", "not text"])
def test_what_is_no_text_file_is_a_setting_error(tmp_path, kind):
    path = tmp_path
    if kind == "not text":
        path = tmp_path / "binary.toml"
        path.write_bytes(b'name = "\xff"')
    with pytest.raises(SettingError):
        read_settings(path, [])


def test_to_give_one_of_two_alternatives_takes_back_the_other():
    recipe = LocalSGD(epochs=5)
    assert apply(recipe, {"steps": 3}) == LocalSGD(steps=3)
    assert apply(recipe, {"lr": 0.3}) == LocalSGD(epochs=5, lr=0.3)
    with pytest.raises(SettingError, match="give one of the two"):
        apply(recipe, {"steps": 3, "epochs": 2})


@pytest.mark.parametrize("name", ["evil-net", " evil", "évil", "evil net", "evil"])
def test_code_of_a_run_is_not_imported_by_an_odd_name_either(tmp_path, monkeypatch, name):
    """A file beside the user may be called anything, and be imported by that name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.py").write_text("from pathlib import Path\nPath('witness').touch()\n")
    kept = {
        "algorithm": "fedavg",
        "options": {"rounds": 1},
        "clients": 4,
        "partition": "iid",
        "model": f"{name}:make",
    }
    (tmp_path / "settings.json").write_text(json.dumps(kept))
    with pytest.raises(PacelineError, match=r"names? (code|no network)"):
        make_run(make_settings("fedavg", (), read_settings(tmp_path, ["fedavg"], trust=False)), dry=True)
    assert not (tmp_path / "witness").exists()
