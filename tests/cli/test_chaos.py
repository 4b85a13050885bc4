"""``paceline chaos`` as a user types it."""

import json


def test_a_table_for_people_and_one_for_programs(paceline, tmp_path):
    words = ("chaos", "fedavg", "--faults", "nan", "--faults", "server crash", "--set", "rounds=3")
    shown = paceline(*words)
    assert shown.status == 0
    assert "goes on" in shown.out and "cannot go on without it" in shown.out
    assert "2 cells (1 algorithms, 2 faults): 1 goes on, 1 ends" in shown.out
    assert shown.err.splitlines() == ["fedavg, nan: goes on", "fedavg, server crash: ends"]

    told = paceline(*words, "--json", "--quiet")
    found = json.loads(told.out)
    assert told.err == "" and found["outcomes"] == {"goes on": 1, "ends": 1} and found["settings"] == ["rounds=3"]
    (tmp_path / "figures.json").write_text(told.out)
    page = paceline("chaos", "--read", "figures.json", "--markdown")
    assert "| fedavg | goes on, " in page.out and "| fedavg | ends [1], " in page.out


def test_what_hangs_or_is_wrong_is_a_failure(paceline, tmp_path):
    cell = {"algorithm": "a", "fault": "lost", "outcome": "hang", "message": "[b]never"}
    (tmp_path / "figures.json").write_text(json.dumps({"seed": 0, "settings": [], "cells": [cell]}))
    shown = paceline("chaos", "--read", "figures.json")
    assert shown.status == 1 and "hang" in shown.out and "[b]never" in shown.out


def test_what_cannot_be_read_is_refused(paceline, tmp_path):
    (tmp_path / "figures.json").write_text("[")
    assert "error:" in paceline("chaos", "--read", "figures.json").err
    assert "no fault is called" in paceline("chaos", "fedavg", "--faults", "gremlins").err
    assert "no algorithm is called" in paceline("chaos", "fedavgg").err
