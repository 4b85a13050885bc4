"""What the page carries: the library as it was made, all modules of the script, and licences beside them."""

import hashlib
import json
from importlib.resources import files
from pathlib import Path

import paceline
from paceline.report import carried

ASSETS = files("paceline.report") / "assets"


def test_the_library_is_the_one_that_was_made_and_small():
    made = (ASSETS / "vendor" / "echarts.min.js").read_bytes()
    assert (ASSETS / "vendor" / "echarts.sha256").read_text().split()[0] == hashlib.sha256(made).hexdigest()
    assert len(made) < 800_000
    version = json.loads((ASSETS / "vendor" / "package.json").read_text())["dependencies"]["echarts"]
    assert f"Apache ECharts {version}".encode() in made[:200]
    for licence in ("echarts.LICENSE", "echarts.NOTICE", "echarts.LICENSE-d3", "zrender.LICENSE"):
        assert (ASSETS / "vendor" / licence).read_text().strip()


def test_every_module_of_the_script_is_carried_and_small():
    names = {file.name.removesuffix(".js") for file in Path(str(ASSETS)).glob("*.js")}
    assert names == set(carried.SCRIPTS)
    for name in names:
        assert len((ASSETS / f"{name}.js").read_text().splitlines()) <= 350, name


def test_assets_are_part_of_the_package():
    declared = (Path(paceline.__file__).parents[2] / "pyproject.toml").read_text()
    assert '"report/assets/*", "report/assets/vendor/*"' in declared
