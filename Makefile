# make book   set up, build, and say where to open the book
# make test   set up, and pass every test
# make help   the rest

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off

.PHONY: help book test lab progress exercises-report notebooks bench clean
.DEFAULT_GOAL := help

help:
	@echo "make book        the book, in _build/html/"
	@echo "make test        every test"
	@echo "make lab         the notebooks, in JupyterLab"
	@echo "make progress    which of the exercises you have solved"
	@echo "make notebooks   run the chapters again and store their outputs"
	@echo "make exercises-report"
	@echo "                 every exercise with its right and wrong answers"
	@echo "make bench       the speed tables (minutes)"
	@echo "make clean       remove what was built, and the environment"

# pip comes last into an environment: where it is, the rest is too.
$(BIN)/pip:
	@echo "== a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

# What rendering stored outputs takes: no torch, no triton.
$(VENV)/book.stamp: book/requirements.txt pyproject.toml | $(BIN)/pip
	@echo "== installing what the book's pages need"
	$(PIP) -r book/requirements.txt -e .
	@touch $@

# What running the notebooks and the tests takes.
$(VENV)/test.stamp: requirements.txt tests/requirements.txt $(VENV)/book.stamp
	@echo "== installing what the notebooks and the tests need (torch is large)"
	$(PIP) -r requirements.txt -r tests/requirements.txt
	@touch $@

book: $(VENV)/book.stamp
	$(BIN)/python -m book build

test: $(VENV)/test.stamp
	$(BIN)/python -m book build
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --nbval -n auto --dist loadfile \
		--timeout 600

lab: $(VENV)/test.stamp
	$(BIN)/jupyter lab

progress: $(VENV)/test.stamp
	@$(BIN)/python -m lintut.check --progress exercises/*.ipynb || true

exercises-report: $(VENV)/test.stamp
	@$(BIN)/python tests/exercises/report.py

notebooks: $(VENV)/test.stamp
	$(BIN)/python -m book run

# The peers that the tables compare with; what is missing is left out of them.
bench: $(VENV)/test.stamp
	$(PIP) numba==0.68.1 einops==0.8.2
	$(PIP) --no-deps flash-linear-attention==0.6.0 fla-core==0.6.0
	$(BIN)/python -m lintut.bench

clean:
	rm -rf _build $(VENV)
