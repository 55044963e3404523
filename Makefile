# make demo   watch 90 days of wrong revenue being repaired
# make test   everything: lints, types, layers, all tests (Spark, SQLite, PostgreSQL)
# make check  the quick part of it, without Spark, on all cores
# make bench  against a hand-written Spark job and others, TPC-H, loads, cold starts; writes docs/performance.md
# make bench-peers  of it: SQLMesh and dbt-spark on the same data, in environments of their own
# make scale  how steps grow with slices, files and models; the demo on a Spark cluster; writes docs/scaling.md
# make soak   hours of crashes: every step killed for real, thousands of steps drawn by chance
# make lock   renew the pins in requirements.lock

# Some shells forbid Python to keep its bytecode: the tests start many processes, and each would compile retcon anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check lint quick bench bench-peers scale soak lock clean

demo: $(READY)
	@$(BIN)/retcon demo

# Side by side: mypy, which has one thread, would leave a core idle for a minute.
check: $(READY)
	$(MAKE) --no-print-directory -j 2 lint quick

lint: $(READY)
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

quick: $(READY)
	$(BIN)/pytest -q -m "not spark and not slow and not soak" -n auto --dist worksteal

# Three at once on two cores: tests that start processes, or wait for locks and leases, leave a core idle.
test: check
	$(BIN)/pytest -q -m "(spark or slow) and not soak" -n 3 --dist worksteal

soak: $(READY)
	$(BIN)/pytest -m soak -n 2 --dist worksteal
	RETCON_EXAMPLES=500 $(BIN)/pytest -p no:cacheprovider tests/spark/test_every_kind.py
	RETCON_EXAMPLES=300 RETCON_STEPS=30 RETCON_SEED=$$(date +%s) $(BIN)/pytest -p no:cacheprovider tests/spark/test_life.py
	RETCON_EXAMPLES=100 RETCON_STEPS=20 RETCON_SEED=$$(date +%s) $(BIN)/pytest -p no:cacheprovider \
	  tests/spark/test_loads_keep_up.py

bench: $(READY)
	$(BIN)/python benchmarks/bench.py

bench-peers: $(READY)
	$(BIN)/python benchmarks/compare_peers.py

scale: $(READY)
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/cluster.py

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "retcon needs Python 3.11 or newer; this is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "no virtual environment could be made in $(VENV). Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(READY)

lock:
	uv pip compile pyproject.toml --group dev --extra postgres --extra great-expectations --universal --python-version 3.11 \
	  --no-emit-index-url --no-annotate --no-header --upgrade -o requirements.lock

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
