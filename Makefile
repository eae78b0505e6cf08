# Windows has no make: there make.bat reads this file by .ci/make.py, which says how much of make's language it knows.
# `make PYTHON=python3.12 lab` takes another Python, `make LAB=--no-browser lab` gives JupyterLab an option.
PYTHON ?= python3
LAB ?=
SEEDS ?= 5
NOISE ?= 1 2
BOOK = .venv/bin/python
HTML = .venv-html/bin/python

# JupyterLab refuses root, the usual user of a container, unless it is told that root is meant. It listens on this
# machine alone and asks for its token all the same.
AS_ROOT =
ifeq ($(shell id -u),0)
AS_ROOT = --allow-root
endif

.PHONY: help lab test check notebooks exercises handout figures portable noise environments bench timings html html-test browser-test latency grade-test env

help:
	@echo "make lab        open the book in JupyterLab"
	@echo "make test       run the tests, and hold every notebook to its printed numbers"
	@echo "make check      style and types"
	@echo "make notebooks  rebuild the notebooks from notebooks/text"
	@echo "make exercises  rebuild the exercises and their solutions from notebooks/solutions/text"
	@echo "make handout    write build/handout/bertch15-handout.zip for students: the book, no solutions"
	@echo "make figures    write figures/*.svg and *.png anew, from the same functions as the pages"
	@echo "make portable   run all pages under rounding noise, other kernels and threads; SEEDS=20 before a release (an hour)"
	@echo "make noise      run all pages under two seeds of rounding noise, as CI does; NOISE=7 takes another"
	@echo "make environments make throw-away environments with other versions, for make portable"
	@echo "make bench      measure the fast lab against the plain listing, on this machine (ten minutes)"
	@echo "make timings    measure how long each page runs, for the start page"
	@echo "make html       build the static edition, build/html/index.html, from the stored outputs"
	@echo "make html-test  look at the static edition in a browser with the network cut"
	@echo "make browser-test move the sliders in JupyterLab, in a browser; screenshots in build/screenshots"
	@echo "make latency    measure in a browser how soon a moved slider is seen to have moved"
	@echo "make grade-test release an exercise with nbgrader and grade three answers to it"
	@echo "make env        only bring .venv up to date, as each of the others does first"

env:
	@$(PYTHON) .ci/env.py

lab: env
	$(BOOK) -m jupyterlab --ip=127.0.0.1 $(AS_ROOT) $(LAB) notebooks/index.ipynb

test:
	@$(PYTHON) .ci/env.py --extra test
	$(BOOK) -m pytest -n auto

check:
	@$(PYTHON) .ci/env.py --extra check
	$(BOOK) -m ruff check .
	$(BOOK) -m ruff format --check .
	$(BOOK) -m mypy

notebooks: env
	$(BOOK) .ci/notebooks.py

exercises: env
	$(BOOK) .ci/exercises.py

handout:
	@$(PYTHON) .ci/handout.py

figures: env
	$(BOOK) .ci/figures.py

portable: env
	$(BOOK) .ci/portable.py --seeds $(SEEDS)

noise: env
	$(BOOK) .ci/portable.py --noise $(NOISE)

environments: env
	$(BOOK) .ci/environments.py

bench: env
	$(BOOK) tests/bench.py

timings: env
	$(BOOK) .ci/timings.py

html:
	@$(PYTHON) .ci/html_env.py
	@$(HTML) .ci/html/build.py

html-test:
	@$(PYTHON) .ci/html_env.py --tests
	$(HTML) -m pytest -o addopts= --noconftest -p no:cacheprovider --color=no -rs -m html tests/test_html.py

# The same browser opens the book in the book's own JupyterLab.
browser-test: env
	@$(PYTHON) .ci/html_env.py --tests
	$(HTML) -m pytest -o addopts= --noconftest -p no:cacheprovider --color=no -rs -m browser tests/test_browser.py

latency: env
	@$(PYTHON) .ci/html_env.py --tests
	$(HTML) tests/latency.py

grade-test:
	@$(PYTHON) .ci/env.py --extra grade
	$(BOOK) -m pytest -m grade tests/test_grade.py
