# Everything a user types. Each target does its own set-up and is quick when that is done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo docs test test-federation test-browser test-trackers test-slow test-newest test-lowest test-data mutants check bench bench-dry bench-growth bench-together bench-peers assets pictures dist lock sbom audit clean

setup: $(READY)

# Dependencies are never resolved here, so that nothing outside the lock is considered; the last step checks the result.
# uv takes seconds where pip takes a minute. torch comes from pip, which follows your own configuration to a CPU build.
PIP := $(BIN)/pip --quiet --disable-pip-version-check
LOCKED := --quiet --no-deps --require-hashes -r requirements.lock
$(READY): pyproject.toml requirements.lock tools/uv.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python tools/uv.py pip install $(LOCKED) || $(PIP) install $(LOCKED)
	$(PIP) install --no-compile torch==2.13.0
	$(PIP) install --no-deps --no-build-isolation -e .
	$(BIN)/pip check || { echo "$(VENV) does not fit the lock; delete it, and start again"; exit 1; }
	touch $(READY)

# Four algorithms on 100 unequal devices: time, bytes and idle share to 90 % accuracy, five seeds each.
demo: $(READY)
	rm -rf demo
	$(BIN)/paceline compare fedavg sfl psfl fedbuff --until accuracy=0.9 --seeds 5 --out demo

# The documentation as a site in build/site; a warning, a link that leads nowhere or something from elsewhere is an error.
docs: $(READY)
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs 2 --builder html --conf-dir docs . build/site
	$(BIN)/python docs/check_site.py build/site
	@echo build/site/index.html

test: $(READY)
	$(BIN)/pytest

# A real SuperLink and real SuperNodes on loopback, and who is let in.
test-federation: $(READY)
	$(BIN)/pytest -m federation --override-ini "addopts=-q --strict-markers -n 2 --timeout=360"

# TensorBoard, MLflow, W&B and Perfetto's trace processor read back what was written for them; the trace processor also
# needs Node (Debian: apt install nodejs).
test-trackers: $(READY)
	$(BIN)/pytest -m trackers --override-ini "addopts=-q --strict-markers -n 2 --timeout=300"

# Pages in a real browser: Debian's chromium, or the one that PACELINE_BROWSER names.
test-browser: $(READY)
	$(BIN)/pytest -m browser --override-ini "addopts=-q --strict-markers -n 1 --timeout=300"

# What takes long, and every property with many more examples than in each run of the suite.
test-slow: $(READY)
	$(BIN)/pytest -m "slow and not federation" --override-ini "addopts=-q --strict-markers -n 1"
	$(BIN)/pytest -m "slow and federation" --override-ini "addopts=-q --strict-markers -n 0"
	PACELINE_EXAMPLES=300 $(BIN)/pytest -m hypothesis

# The newest and the lowest releases that pyproject.toml allows, without the lock, each in an environment of its own: the
# demo, and the tests that lean on other packages most. Warnings are not errors here. PyPI's torch brings 5 GB of CUDA
# packages along.
LEAN := tests/contract/test_trainers.py tests/cluster tests/figures tests/ledger tests/report tests/topology tests/ui
test-newest: RESOLUTION := highest
test-lowest: RESOLUTION := lowest-direct
test-newest test-lowest:
	$(PYTHON) -m venv --clear build/$@
	build/$@/bin/python tools/uv.py pip install --quiet --resolution $(RESOLUTION) -e ".[all,dev]"
	build/$@/bin/paceline compare fedavg sfl psfl fedbuff --until accuracy=0.9 --seeds 5 --out build/$@/demo
	build/$@/bin/pytest -W default $(LEAN)

test-data: $(READY)
	@test -n "$$PACELINE_DATA" || { echo "set PACELINE_DATA to a directory of datasets (see: paceline data)"; exit 2; }
	$(BIN)/pytest -m data

# How many small mistakes in the sources the suite finds: as many as COUNT, drawn by SEED.
SEED ?= 9f12e6b
COUNT ?= 100
mutants: $(READY)
	$(BIN)/python -m tests.mutation --seed $(SEED) --count $(COUNT)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.visits

bench-together: $(READY)
	$(BIN)/python -m benchmarks.together

bench-dry: $(READY)
	$(BIN)/python -m benchmarks.dry

# What a visit costs with 32,000 devices at work and with 2,000: at most 1.5 times as much.
bench-growth: $(READY)
	$(BIN)/python -m benchmarks.devices

# Other frameworks on the same federations; wants PACELINE_DATA with mnist.npz, and some gigabytes under build/peers.
bench-peers: $(READY)
	$(BIN)/python -m benchmarks.peers --json build/peers.json

# Wheel and sdist, by the pinned setuptools.
dist: $(READY)
	rm -rf dist build/lib build/bdist.*
	$(BIN)/python -c "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')" > /dev/null
	@ls dist/*

# The charts of pages: Apache ECharts, only the parts in entry.js, as one file that is part of the repository.
ASSETS := src/paceline/report/assets/vendor
assets:
	mkdir -p build/assets
	cp $(ASSETS)/package.json $(ASSETS)/package-lock.json $(ASSETS)/entry.js build/assets
	cd build/assets && npm ci --no-audit --no-fund --loglevel=error && node node_modules/esbuild/install.js
	cd build/assets && node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=echarts \
		--legal-comments=none --log-level=warning --outfile=echarts.min.js \
		--banner:js="/*! Apache ECharts 6.1.0, Apache License 2.0; see echarts.LICENSE and echarts.NOTICE */"
	cp build/assets/echarts.min.js $(ASSETS)/echarts.min.js
	cp build/assets/node_modules/echarts/LICENSE $(ASSETS)/echarts.LICENSE
	cp build/assets/node_modules/echarts/NOTICE $(ASSETS)/echarts.NOTICE
	cp build/assets/node_modules/echarts/licenses/LICENSE-d3 $(ASSETS)/echarts.LICENSE-d3
	cp build/assets/node_modules/zrender/LICENSE $(ASSETS)/zrender.LICENSE
	cd $(ASSETS) && sha256sum echarts.min.js > echarts.sha256

# The picture of a page in the docs, from the page of `make demo`.
pictures: $(READY)
	test -f demo/report.html || $(MAKE) demo
	$(BIN)/python -m tests.browser.pictures demo/report.html docs/images/demo.png

# What the project is made of: the lock file with digests, a bill of materials, and known weaknesses of the pins.
TOOLS := build/tools/bin
$(TOOLS)/python:
	$(PYTHON) -m venv build/tools
	$(TOOLS)/pip install --quiet --disable-pip-version-check uv==0.13.7 cyclonedx-bom==7.5.0 pip-audit==2.10.1

# One lock for all Pythons that pyproject.toml allows; what is pinned stays where it is while it fits. Delete the lock
# first for the newest releases. torch stays outside, because its builds bring different packages.
lock: $(TOOLS)/python
	$(TOOLS)/python tools/uv.py pip compile pyproject.toml --config-file tools/lock.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-emit-package torch --no-header --no-annotate --quiet --output-file requirements.lock

sbom: $(TOOLS)/python
	$(TOOLS)/cyclonedx-py requirements requirements.lock --of JSON -o build/sbom.cdx.json
	@echo build/sbom.cdx.json

audit: $(TOOLS)/python
	$(TOOLS)/pip-audit -r requirements.lock --no-deps --disable-pip

clean:
	rm -rf $(VENV) demo runs build dist
