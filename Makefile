# Everything works from a fresh clone: a target sets up what it needs, and does so only once.
#   PYTHON=python3.12   the interpreter for .venv (3.10 to 3.13)
#   TESTS=tests/codecs  what `make test` runs
#   OTHER=3.12          the Python of `make test-python`
#   JOBS=2              in how many processes; each has a Spark of its own and, where tests ask for them, a broker and a registry
#   ARGS="..."          more options for the program that a target runs

SHELL := /bin/sh
BIN := .venv/bin
INSTALLED := .venv/.installed
FETCHED := .venv/.jars
CLASSES := .venv/.classes/spark.jsa
TESTS ?= tests
JOBS ?= 2
COMPILE := uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" --quiet
export PYTHON OTHER

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-heavy test-python test-compat test-stores lint types format bench bench-codecs stack-up stack-down build lock changelog clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) $(FETCHED) ## Make .venv from the lock and fetch the jars

demo: setup ## Run the pipeline on simulated, evolving games with a real broker and registry, and prove the result
	$(BIN)/distributary demo $(ARGS)

test: setup $(CLASSES) ## Run the tests (TESTS= names some, ARGS= adds pytest options)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(if $(filter tests,$(TESTS)),-m "not heavy") $(TESTS) $(ARGS)

test-heavy: setup $(CLASSES) ## Run what `make test` leaves out: what takes minutes or gigabytes, and many more random examples
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m heavy tests $(ARGS)
	EXAMPLES_TIMES=10 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "hypothesis and not heavy and not spark" tests $(ARGS)

test-python: $(INSTALLED) ## Run the tests that need no JVM with another Python: this commit's by rotation, or OTHER=3.12
	@JOBS=$(JOBS) sh tools/test_other_python.sh $(ARGS)

test-compat: ## Run the codecs through the genuine functions of Spark 3.4.1, in .venv-compat (Python 3.10 or 3.11, Java 17)
	@sh tools/test_compat.sh $(ARGS)

test-stores: $(INSTALLED) ## Fetch the stores that the tests of ingest/storage run against: S3, HDFS, Azure where there is npm
	@sh tools/test_stores.sh

lint: $(INSTALLED) ## Check style and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

types: $(INSTALLED) ## Check types (mypy --strict)
	$(BIN)/mypy

format: $(INSTALLED) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## Measure this way against the others and write benchmarks/results/demux.json (ARGS="--events 200000" for less)
	$(BIN)/python benchmarks/bench_demux.py $(ARGS)

bench-codecs: setup ## Measure the decoders of all formats, and JSON and Avro pipelines, and write benchmarks/results/codecs.json
	@sh tools/setup_compat.sh || [ $$? -eq 3 ]
	$(BIN)/python benchmarks/bench_codecs.py $(ARGS)

stack-up: setup ## Start the local Kafka broker and schema registry
	$(BIN)/distributary stack up $(ARGS)

stack-down: $(INSTALLED) ## Stop them; topics and schemas stay for the next start
	$(BIN)/distributary stack down

build: $(INSTALLED) ## Build the sdist and the wheel into dist/
	$(BIN)/python -m build --no-isolation

lock: ## Renew the locks, from pyproject.toml and requirements-*.in (needs uv; ARGS=--upgrade takes newer versions)
	$(COMPILE) --extra dev --output-file requirements.lock $(ARGS) pyproject.toml
	$(COMPILE) --output-file requirements-compat.lock $(ARGS) requirements-compat.in
	$(COMPILE) --output-file requirements-stores.lock $(ARGS) requirements-stores.in

changelog: $(INSTALLED) ## Show the changelog that the fragments make
	$(BIN)/towncrier build --draft --version next

clean: ## Remove the environments, caches and what was built (downloaded jars stay in the user's cache)
	rm -rf .venv .venv-* build dist demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.lock pyproject.toml tools/setup.sh tools/venv.sh
	@sh tools/setup.sh
	@touch $@

$(FETCHED): $(INSTALLED) $(wildcard ingest/spark/*.lock producer_sim/stack/*.lock)
	@$(BIN)/distributary jars
	@touch $@

# The tests start some twenty JVMs, each of which takes its classes from here.
$(CLASSES): $(FETCHED) tools/share_classes.py
	@$(BIN)/python tools/share_classes.py .venv/.classes
	@touch $@
