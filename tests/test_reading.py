"""Reading what came from elsewhere: only regular files, of a bounded size, in text that can be written again."""

import os

import pytest

from paceline.errors import DataError, SettingError
from paceline.reading import (
    DEEPEST,
    cleaned,
    expanded,
    parse_json,
    parse_object,
    plain_number,
    read_file,
    read_text,
    shown,
)


def test_a_file_is_read_by_way_of_a_link(tmp_path):
    (tmp_path / "a").write_text("\ufeffwords", encoding="utf-8")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert read_text(tmp_path / "b") == "words"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingError, match="pipe is a pipe; give the path of a regular file"):
        read_text(tmp_path / "pipe", SettingError)


def test_sizes_are_looked_at_first(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)  # a hole: nothing is on disk
    with pytest.raises(DataError, match="has 1,099,511,627,776 bytes; at most 10 are read"):
        read_file(tmp_path / "large", 10)


def test_a_missing_file_is_left_to_the_caller(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nothing", 10)


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000])
def test_names_that_no_file_has(tmp_path, name):
    with pytest.raises(DataError, match="cannot be read"):
        read_file(tmp_path / name, 10)


def test_what_is_no_text(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read as text in UTF-8"):
        read_text(tmp_path / "a")


def test_nobody_s_home_is_no_home():
    assert str(expanded("~nobody-has-this-name/x")) == "~nobody-has-this-name/x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("9" * 5000, "thousands of digits"),
        ("[" * 100_000, "too deep"),
        ('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), "nested more than 32 deep"),
        ('"\\ud800"', "half a character"),
    ],
)
def test_json_that_is_damaged(text, said):
    with pytest.raises(DataError, match=f"here is .*{said}"):
        parse_json(text, "here")


def test_json_that_is_right():
    assert parse_json('{"a": "\\u00e9", "b": [1, {"c": null}]}', "here") == {"a": "é", "b": [1, {"c": None}]}
    with pytest.raises(DataError, match="here must be a JSON object; got a list"):
        parse_object("[]", "here")


@pytest.mark.parametrize("text", ["1_0", "٣", "", "x", "1,5"])
def test_numbers_are_plain(text):
    with pytest.raises(ValueError):  # noqa: PT011
        plain_number(text)


def test_values_are_shown_short():
    assert shown("x") == "'x'"
    assert shown("x" * 1000).endswith("… (1,002 characters)")
    assert shown(16**5000) == "a whole number too long to show"


def test_somebody_elses_text_is_one_short_line():
    forged = "all is\x1b[31m well\x1b]0;title\x07\n[root] so\u2028is\x9bthis\r\x00"
    assert cleaned(forged) == "all is well [root] so is this  "
    long = cleaned("\x1b[1m" * 9 + "é" * 3_000_000)
    assert long.startswith("ééé") and long.endswith("… (3,000,036 characters)") and len(long) <= 500
    assert cleaned(long) == long
