# Everything works from a fresh clone: a target sets up what it needs, and does so only once.
#   PYTHON=python3.12   the interpreter for .venv (3.10 to 3.13)
#   TESTS=tests/codecs  what `make test` runs
#   OTHER=3.12          the Python of `make test-python`
#   OTHER_SPARK=3.5     the Spark of `make test-spark`
#   JOBS=2              in how many processes (`make test`: 3, where there is memory); each has a Spark of its own and, where tests ask for them, a broker and a registry
#   ARGS="..."          more options for the program that a target runs

SHELL := /bin/sh
BIN := .venv/bin
INSTALLED := .venv/.installed
FETCHED := .venv/.jars
CLASSES := .venv/.classes/registry.jsa
S3 := .venv/.s3
STORES := .venv/.stores
# An environment of moto, boto3 and all that .venv has beside them.
WITH_BOTO3 := .venv-stores/bin/python
NEED_BOTO3 := tests/registry/glue tests/ingest/storage/test_aws_credentials.py tests/producer_sim/stack/test_s3_store.py
# Each takes a few minutes.
S3_PARTS := 16
# Each takes some minutes, too.
HEAVY_PARTS := 16
WITH_S3 = $(if $(findstring --s3,$(ARGS)),$(S3))
TESTS ?= tests
JOBS ?= 2
# Tests start a hundred processes: what one has compiled the others need not.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart 1
COMPILE := uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" --quiet
export PYTHON OTHER OTHER_SPARK

.DEFAULT_GOAL := help
.PHONY: help setup demo drill examples test test-heavy test-heavy-part test-python test-spark test-other test-compat test-stores test-cluster test-s3 test-s3-part lint types format bench bench-codecs bench-storage bench-tables bench-pipelines stack-up stack-down build lock changelog clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(INSTALLED) $(FETCHED) ## Make .venv from the lock and fetch the jars

demo: setup $(WITH_S3) ## Run the pipeline on simulated, evolving games with a real broker and registry, and prove the result (ARGS="--s3": in a store)
	$(BIN)/distributary demo $(ARGS)

drill: setup $(CLASSES) ## Harm pipelines on a real broker and registry in every way we know, and prove that nothing is lost or twice (ARGS="--list")
	$(BIN)/python -m drills $(ARGS)

examples: setup $(CLASSES) ## Play the examples, each held against a recomputation by other means (ARGS="keyed_json")
	$(BIN)/python -m examples $(ARGS)

# Each process waits for its own Spark, broker and registry for a third of the time, which a third one uses; it takes 4 GB of memory.
THIRD = $(if $(filter file,$(origin JOBS)),$(shell awk '/MemAvailable/ && $$2 > 14000000 { print "-n 3" }' /proc/meminfo 2>/dev/null))

test: setup $(CLASSES) $(S3) ## Run the tests (TESTS= names some, ARGS= adds pytest options)
	$(PYTEST) $(THIRD) $(if $(filter tests,$(TESTS)),-m "not heavy and not cluster") $(TESTS) $(ARGS)

test-heavy test-heavy-part: setup $(CLASSES) $(STORES)
	$(PART_OF_HEAVY) $(PYTEST) -m "heavy and not cluster" tests $(ARGS)
	EXAMPLES_TIMES=10 $(PYTEST) -m "hypothesis and not heavy and not spark" tests $(ARGS)
	[ ! -x $(WITH_BOTO3) ] || $(WITH_BOTO3) -m pytest $(NEED_BOTO3) $(ARGS)

test-heavy: ## Run what `make test` leaves out: what takes minutes or gigabytes, and many more random examples
test-heavy-part: ## Run a sixteenth of the former, this commit's by rotation, and all of the latter
test-heavy-part: PART_OF_HEAVY = PART=$$(sh tools/turn.sh $(HEAVY_PARTS))/$(HEAVY_PARTS)

test-python: $(INSTALLED) ## Run the tests that need no JVM with another Python: this commit's by rotation, or OTHER=3.12
	@JOBS=$(JOBS) sh tools/test_other_python.sh $(ARGS)

test-spark: $(INSTALLED) ## Run the demo and a choice of tests on another Spark: this commit's by rotation, or OTHER_SPARK=3.5
	@JOBS=$(JOBS) sh tools/test_other_spark.sh $(ARGS)

test-other: $(INSTALLED) ## Run test-spark or test-python, by this commit's hash
	@JOBS=$(JOBS) sh tools/test_other.sh $(ARGS)

test-compat: ## Run the codecs through the genuine functions of Spark 3.4.1, in .venv-compat (Python 3.10 or 3.11, Java 17)
	@sh tools/test_compat.sh $(ARGS)

test-stores: $(INSTALLED) ## Fetch the stores that the tests of ingest/storage run against: S3, HDFS, Azure where there is npm
	@sh tools/test_stores.sh

test-cluster: setup $(CLASSES) $(S3) ## Run whole pipelines on a standalone cluster whose machines share no folder
	$(PYTEST) -n 0 -o faulthandler_timeout=1900 -m cluster tests/cluster $(ARGS)

test-s3: setup $(CLASSES) $(S3) ## Run the end-to-end tests, heavy ones too, with their tables and checkpoints in a store that speaks S3
	TABLES_IN=s3 $(PYTEST) -m "not folder" tests/ingest/e2e $(ARGS)

test-s3-part: setup $(CLASSES) $(S3) ## Run a part of them: this commit's by rotation
	PART=$$(sh tools/turn.sh $(S3_PARTS))/$(S3_PARTS) TABLES_IN=s3 $(PYTEST) -m "not folder" tests/ingest/e2e $(ARGS)

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

bench-storage: setup $(S3) ## Measure tables in a store that speaks S3, near and far, beside a folder, and write benchmarks/results/storage.json
	$(BIN)/python benchmarks/bench_storage.py $(ARGS)

bench-tables: setup ## Measure tables with one row a key, partitions and upkeep beside what is written by hand, and write benchmarks/results/tables.json
	$(BIN)/python benchmarks/bench_tables.py $(ARGS)

bench-pipelines: setup ## Measure what tables of tables, records kept as they came and expectations cost, and write benchmarks/results/pipelines.json
	$(BIN)/python benchmarks/bench_pipelines.py $(ARGS)

stack-up: setup $(WITH_S3) ## Start the local Kafka broker and schema registry (ARGS="--s3": and a store)
	$(BIN)/distributary stack up $(ARGS)

stack-down: $(INSTALLED) ## Stop them; topics and schemas stay for the next start
	$(BIN)/distributary stack down

build: $(INSTALLED) ## Build the sdist and the wheel into dist/
	$(BIN)/python -m build --no-isolation

lock: ## Renew the locks, from pyproject.toml and requirements-*.in (needs uv; ARGS=--upgrade takes newer versions)
	$(COMPILE) --extra dev --output-file requirements.lock $(ARGS) pyproject.toml
	$(COMPILE) --output-file requirements-compat.lock $(ARGS) requirements-compat.in
	$(COMPILE) --output-file requirements-stores.lock $(ARGS) requirements-stores.in
	$(COMPILE) --output-file requirements-spark-3.5.lock $(ARGS) pyproject.toml requirements-spark-3.5.in
	$(COMPILE) --output-file requirements-spark-4.1.lock $(ARGS) pyproject.toml requirements-spark-4.1.in

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

$(S3): $(INSTALLED) tools/test_stores.sh requirements-stores.lock
	@sh tools/test_stores.sh s3
	@touch $@

# Once; `make test-stores` asks again for what this machine lacked.
$(STORES): $(S3) tests/ingest/storage/hdfs_jar.lock
	@sh tools/test_stores.sh
	@touch $@

# The tests start some twenty JVMs, each of which takes its classes from here.
$(CLASSES): $(FETCHED) tools/share_classes.py
	@$(BIN)/python tools/share_classes.py .venv/.classes
	@touch $@
