# The developer's commands; CI runs these and nothing else. Each installs first, once per change of the lock file.

PYTHON ?= python3
UV_PIN := uv==0.13.9
BIN := .venv/bin
INSTALLED := .venv/.installed
SMOKE := dist/smoke
ARGS ?=
JOBS ?= 2
PEERS := benchmarks/peers/.venv
OURS := perdure,perdure+short_tools,perdure+short_tools+short_model,floor,floor+rows
THEIRS := pydantic_ai_temporal,openai_agents_temporal,dbos_pydantic_ai,langgraph_postgres+durability=sync,pydantic_ai_temporal+best,openai_agents_temporal+best,dbos_pydantic_ai+best,langgraph_postgres+durability=sync+best

export PERDURE_TEST_SCALE ?= 0.05
# A process that compiles its modules anew starts three times as slowly, and the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install format check test soak demo build bench bench-peers

install: $(INSTALLED)

$(INSTALLED): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Perdure needs Python 3.11 or newer: make PYTHON=python3.12 install")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV_PIN)'
	VIRTUAL_ENV= $(BIN)/uv sync --quiet --frozen --compile-bytecode --extra dev
	@touch $@

format: install
	$(BIN)/ruff check --fix --exit-zero --quiet perdure tests examples benchmarks
	$(BIN)/ruff format perdure tests examples benchmarks

check: install
	$(BIN)/ruff check perdure tests examples benchmarks
	$(BIN)/ruff format --check perdure tests examples benchmarks
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q tests/test_layout.py tests/unit/test_compose.py

# ARGS goes to pytest: make test ARGS="tests/unit -k inbox". Two processes, a file of tests in one; each with its own servers.
test: install
	$(BIN)/pytest --numprocesses $(JOBS) --dist loadfile $(ARGS)

# The heavy tests at full count, for most of an hour; then that each listed one-line break is noticed by its test.
soak: install
	PERDURE_TEST_SCALE=1 $(BIN)/pytest --numprocesses $(JOBS) --dist loadfile --timeout 3600 -m heavy $(ARGS)
	$(BIN)/python -m tests.mutations $(JOBS)

demo: install
	$(BIN)/perdure demo $(ARGS)

# Ours and the floor, then the works of one kind each; results are appended to benchmarks/results. For hours, on a quiet machine.
bench: install
	$(BIN)/python -m benchmarks run --work W1,W2,W3,W4,W5 --contestants $(OURS) --rounds 9 $(ARGS)
	$(BIN)/python -m benchmarks profile
	for work in w6 w7 w8 w9 w10; do $(BIN)/python -m benchmarks $$work || exit 1; done
	$(BIN)/python -m benchmarks report

# W1 to W5 beside the peers, which have an environment of their own.
bench-peers: install $(PEERS)/.installed
	$(BIN)/python -m benchmarks run --work W1,W2,W3,W4,W5 --contestants $(OURS),$(THEIRS) --rounds 9 $(ARGS)
	$(BIN)/python -m benchmarks report

$(PEERS)/.installed: benchmarks/peers/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --requirement benchmarks/peers/requirements.txt
	@touch $@

# The wheel as users get it: installed without this folder and without the development tools, then tried.
build: install
	rm -rf dist
	$(BIN)/hatchling build --target wheel
	$(BIN)/uv venv --quiet --python $(BIN)/python $(SMOKE)
	$(BIN)/uv export --quiet --frozen --no-emit-project --format requirements-txt --output-file $(SMOKE)/locked.txt
	$(BIN)/uv pip install --quiet --python $(SMOKE)/bin/python --require-hashes --requirements $(SMOKE)/locked.txt
	$(BIN)/uv pip install --quiet --python $(SMOKE)/bin/python --no-deps dist/*.whl
	$(SMOKE)/bin/python -I tests/wheel_smoke.py
	$(SMOKE)/bin/perdure --help > $(SMOKE)/help.txt
