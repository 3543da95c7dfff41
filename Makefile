# make run     set up (first time: some minutes) and generate text with the embedded model
# make test    set up and run the test suite
# make check   lint, format and type checks
# make bench   compare with llama-server on the embedded model (half an hour; RUNS=1 for a look)
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard core/outrider/*/*.c core/outrider/*/*.h core/outrider/*/build_*.py)

.PHONY: run test check bench clean

run: $(VENV)/.ready
	$(BIN)/outrider generate "Write a Python function that returns the sum of two numbers."

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

$(VENV)/.ready: pyproject.toml setup.py scripts/bootstrap.py $(NATIVE)
	$(PYTHON) scripts/bootstrap.py $(VENV)

# Published runs: make bench OUT=configs/benchmarks/DATE/embedded-cpu.json, then scripts/readme_table.py
OUT  ?= build/bench/embedded-cpu.json
RUNS ?= 3
bench: $(VENV)/.ready
	@echo "llama-server is built first (six minutes or more on one core, only once); a run takes about seven"
	@echo "minutes, RUNS=$(RUNS). Interrupt it when you like: the same command goes on where it stopped."
	$(BIN)/python scripts/build_llama_server.py llama-server
	$(BIN)/python scripts/ab_bench.py --llama-server llama-server/bin/llama-server --sampled --resume --runs $(RUNS) --out $(OUT)

clean:
	rm -rf $(VENV) build core/*.egg-info
