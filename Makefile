# Everything runs from .venv, which each target lays down by itself from requirements.lock.
#
#   make demo     the whole product on real parts, on this machine, in under a minute
#   make test     all tests; choose with ARGS, as in: make test ARGS="tests/unit -k budget"
#   make features what of Celery holds over each broker and pool: runs it, writes docs/features.md
#   make peers    others that run durable jobs, measured beside Stepkeeper (wants npm, PostgreSQL)
#   make check    format, lint, types, import contracts
#   make reference  write docs/reference anew from the code
#   make docs     the documentation as a site, in build/site
#   make audit    known vulnerabilities of the pinned packages
#   make sbom     what is pinned, as a bill of materials: build/sbom.json
#   make dist     wheel and sdist, in dist/
#   make pictures the pictures in docs/, taken of the real thing in Chromium
#   make format   let ruff put the format right
#   make lock     resolve requirements.lock anew (UPGRADE=1: to the newest allowed releases)
#   make compose-test   bring docker-compose.yml up with podman, and run the demo through it (root)
#   make clean    remove .venv and everything that was generated

# Another Python than the one found: make PYTHON=/path/to/python3.12 test
PYTHON ?=
ARGS ?=
UPGRADE ?=
UV_VERSION := 0.13.9
RESTATE_VERSION := 1.7.12
# What the container image has; deploy/requirements.lock is that part of requirements.lock.
IMAGE_EXTRAS := anthropic encryption flower mcp metrics otel web worker

BIN := .venv/bin
READY := .venv/.ready
PEERS := build/peers-venv
PEERS_READY := $(PEERS)/.ready
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help demo test features peers check audit sbom dist pictures format lock compose-test clean
.SILENT:

help:
	sed -n 's/^#   //p' Makefile

demo: $(READY)
	$(BIN)/stepkeeper demo $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

features: $(READY)
	status=0; \
	$(BIN)/python -m pytest -n auto --maxprocesses 2 --dist loadfile -p tests.support.features \
	  --features=build/features.json tests/acceptance/features || status=$$?; \
	$(BIN)/python -m tests.support.features_table build/features.json docs/features.md; \
	exit $$status

peers: $(READY) $(PEERS_READY)
	$(BIN)/python -m tests.peers $(ARGS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

reference: $(READY)
	$(BIN)/python -m tests.support.reference

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet -f deploy/mkdocs.yml
	echo "build/site/index.html"

audit: $(READY)
	$(BIN)/python -m tests.support.audit

sbom: $(READY)
	$(BIN)/python -m tests.support.materials build/sbom.json

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation

pictures: $(READY)
	$(BIN)/python -m tests.support.pictures $(ARGS)

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The stamp is written last, so that an interrupted installation starts over.
$(READY): requirements.lock pyproject.toml
	set -e; \
	usable='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'; \
	rm -f "$(READY)"; \
	if ! $(BIN)/python -c "$$usable" 2>/dev/null; then \
	  python=; \
	  for name in "$(PYTHON)" python3 python3.13 python3.12 python3.11 python3.14 python; do \
	    if test -n "$$name" && "$$name" -c "$$usable" >/dev/null 2>&1; then python=$$name; break; fi; \
	  done; \
	  if test -z "$$python"; then \
	    echo "Stepkeeper needs Python 3.11 or later with its venv module, and found none." >&2; \
	    echo "Debian, Ubuntu: apt install python3-venv. Elsewhere: make PYTHON=/path/to/python3 ..." >&2; \
	    exit 1; \
	  fi; \
	  echo "Making .venv with $$("$$python" --version)"; \
	  "$$python" -m venv --clear .venv; \
	fi; \
	echo "Installing what requirements.lock names (a minute or two, this once)"; \
	$(PIP) install --require-hashes --requirement requirements.lock; \
	$(PIP) install --no-deps --no-build-isolation --editable .; \
	touch "$(READY)"

# In a venv of their own: what they need never meets what we do. Restate's server comes from npm,
# whose packages may not run programs while they are installed. PostgreSQL is the system's.
$(PEERS_READY): tests/peers/requirements.txt Makefile | $(READY)
	set -e; \
	echo "Installing what tests/peers/requirements.txt names, and Restate's server"; \
	rm -f "$(PEERS_READY)"; \
	$(BIN)/python -m venv --clear $(PEERS); \
	$(PEERS)/bin/python -m pip --quiet --quiet --disable-pip-version-check --no-input \
	  install --requirement tests/peers/requirements.txt; \
	if command -v npm >/dev/null; then \
	  npm install --prefix build/peers-npm --ignore-scripts --no-audit --no-fund --no-save --silent \
	    @restatedev/restate-server@$(RESTATE_VERSION); \
	else \
	  echo "There is no npm here: Restate is left out" >&2; \
	fi; \
	touch "$(PEERS_READY)"

# One lock for every supported Python, Linux and macOS, with the hashes of all their wheels.
# uv lives in a room of its own: it is needed here only.
lock: $(READY)
	set -e; \
	test -x build/uv/bin/uv || $(BIN)/python -m venv build/uv; \
	build/uv/bin/python -m pip --quiet --quiet --disable-pip-version-check install "uv==$(UV_VERSION)"; \
	build/uv/bin/uv pip compile pyproject.toml --quiet --all-extras --universal \
	  --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	  --no-emit-find-links $(if $(UPGRADE),--upgrade) --output-file requirements.lock; \
	build/uv/bin/uv pip compile pyproject.toml --quiet $(IMAGE_EXTRAS:%=--extra %) --universal \
	  --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	  --no-emit-find-links --constraint requirements.lock --output-file deploy/requirements.lock; \
	echo hatchling | build/uv/bin/uv pip compile - --quiet --universal \
	  --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	  --no-emit-find-links --constraint requirements.lock --output-file deploy/build.lock; \
	echo "requirements.lock is up to date; make test installs it"

compose-test: $(READY)
	PYTHON=$(BIN)/python sh deploy/compose-test.sh

clean:
	rm -rf .venv build dist htmlcov .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find worker api_client tests -name __pycache__ -type d -prune -exec rm -rf {} +
