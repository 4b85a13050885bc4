"""What is pinned is what is installed: the lock file has every pin, with digests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text):
    return {plain(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)}


def test_the_lock_has_every_pin():
    lock = (ROOT / "requirements.lock").read_text()
    assert pins(lock) == pins((ROOT / "requirements.txt").read_text()) != {}


def test_every_pin_has_digests_and_no_address():
    lock = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"^(?=[\w.-]+==)", lock, flags=re.MULTILINE)[1:]
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    assert "://" not in lock
