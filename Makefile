# The developer's commands; CI runs these and nothing else. Each installs first, once per change of the lock file.

PYTHON ?= python3
UV_PIN := uv==0.13.9
BIN := .venv/bin
INSTALLED := .venv/.installed
SMOKE := dist/smoke
ARGS ?=
JOBS ?= 2

export PERDURE_TEST_SCALE ?= 0.05

.PHONY: install format check test soak demo build

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

# The same tests at full count, for hours; then that each listed one-line break is noticed by its test.
soak: install
	PERDURE_TEST_SCALE=1 $(BIN)/pytest --timeout 7200 $(ARGS)
	$(BIN)/python -m tests.mutations

demo: install
	$(BIN)/perdure demo $(ARGS)

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
