# `make PYTHON=python3.12 lab` takes another Python, `make LAB=--no-browser lab` gives JupyterLab an option.
PYTHON ?= python3
LAB ?=
BOOK = .venv/bin/python

.PHONY: help lab test check notebooks bench env

help:
	@echo "make lab        open the book in JupyterLab"
	@echo "make test       run the tests, and hold every notebook to its printed numbers"
	@echo "make check      style and types"
	@echo "make notebooks  rebuild the notebooks from notebooks/text"
	@echo "make bench      measure the fast lab against the plain listing, on this machine (ten minutes)"
	@echo "make env        only bring .venv up to date, as each of the others does first"

env:
	@$(PYTHON) .ci/env.py

lab: env
	$(BOOK) -m jupyterlab --ip=127.0.0.1 $(LAB) notebooks/index.ipynb

test: env
	$(BOOK) -m pytest

check:
	@$(PYTHON) .ci/env.py --extra check
	$(BOOK) -m ruff check .
	$(BOOK) -m ruff format --check .
	$(BOOK) -m mypy

notebooks: env
	$(BOOK) .ci/notebooks.py

bench: env
	$(BOOK) tests/bench.py
