# amqpd: run it, test it, check it. Needs Python 3.11 or later; a C compiler is optional.
#
#   make run         the broker on its defaults (ARGS="--port 5673" adds flags)
#   make test        all tests, on the pure and on the compiled build
#   make check       format, lint, types, import contracts, sizes
#   make test-full   make test, and the tests marked slow
#   make conformance PEER=amqp://...   where another broker and ours differ, and why;
#                    PEER_HTTP=http://guest:guest@...:15672  their management APIs, too
#   make bench       measure it, beside RabbitMQ if that is installed; ARGS="transient
#                    --repeats 3" measures some of it: tests/bench/run.py
#   make bench-smoke a little of every load, to see that they run
#   make clean       remove every environment and build
#
# Every environment is a folder with a stamp, so a second run starts at once. The tests
# run on installed wheels, from a copy of tests/ beside which there is no source tree
# that could be imported instead.

SHELL := /bin/sh
.DELETE_ON_ERROR:
.SUFFIXES:

PYTHON ?= python3
ARGS ?=
PYTEST_ARGS ?=
# How many tests run at once: as many as there are cores. One file of tests about servers
# stays in one process: its tests share what takes long to start.
JOBS ?= auto

# A flag of the environment must not decide which build is tested.
unexport AMQPD_PURE PYTHONPATH PYTHONHOME

SOURCES := setup.py pyproject.toml README.md amqpd/py.typed \
	$(shell find amqpd store routing confirms -name '*.py')
SUITE := pyproject.toml README.md $(shell find tests interop -type f \
	-not -name '*.pyc' -not -path 'tests/test_tidy.py')

CHECKS := build/venv-checks
PURE := build/venv-pure
COMPILED := build/venv-compiled
comma := ,
# One command makes an environment, whatever it is for.
VENV = rm -rf $(1) && $(PYTHON) -m venv $(1)
# pip keeps an installed version that has the same number: force what changed.
INSTALL = ( $(1)/bin/pip install --quiet "$$(echo $(2)/*.whl)$(3)" && \
	$(1)/bin/pip install --quiet --force-reinstall --no-deps $(2)/*.whl )
# setuptools would pack what it copied there last time, deleted modules too.
WHEEL = rm -rf build/lib build/lib.* build/bdist.* $(2) && \
	$(1)/bin/pip wheel --quiet --no-deps --wheel-dir $(2) .

.PHONY: run test test-pure test-compiled test-full check conformance bench \
	bench-smoke clean

run: .venv/installed
	exec .venv/bin/amqpd serve $(ARGS)

test: test-pure test-compiled

test-full: MARKS =
test-full: test

MARKS = -m "not slow"
# From the inside out: what a failing unit test explains need not be read off a server.
RUN_TESTS = cd build/suite && \
	$(1)/bin/python -m pytest $(MARKS) -n $(JOBS) --dist worksteal \
		--ignore=tests/server $(PYTEST_ARGS) tests && \
	$(1)/bin/python -m pytest $(MARKS) -n $(JOBS) --dist loadfile \
		$(PYTEST_ARGS) tests/server interop

test-pure: $(PURE)/installed build/suite/stamp
	$(PURE)/bin/amqpd --version | grep -w pure
	$(call RUN_TESTS,../venv-pure)

test-compiled: $(COMPILED)/installed build/suite/stamp
	@if ls build/wheel-native/*-none-any.whl >/dev/null 2>&1; then \
		echo "make test: no C compiler here, only the pure build was tested"; \
	else \
		$(COMPILED)/bin/amqpd --version | grep -w compiled && \
		$(call RUN_TESTS,../venv-compiled); \
	fi

check: $(CHECKS)/installed
	$(CHECKS)/bin/ruff format --check .
	$(CHECKS)/bin/ruff check .
	$(CHECKS)/bin/mypy
	$(CHECKS)/bin/lint-imports
	$(CHECKS)/bin/python -m pytest --quiet tests/test_tidy.py

# ARGS chooses tests; without it all are run that any broker can be asked.
conformance: $(PURE)/installed build/suite/stamp
	@test -n "$(PEER)" || { echo "name the other broker: PEER=amqp://..."; exit 2; }
	cd build/suite && ../venv-pure/bin/python -m tests.conformance.compare \
		"$(PEER)" $(if $(PEER_HTTP),--management "$(PEER_HTTP)") $(ARGS)
	test -z "$(PEER_HTTP)" || { cd build/suite && ../venv-pure/bin/python \
		-m tests.conformance.http_compare "$(PEER_HTTP)" "$(PEER)"; }

clean:
	rm -rf .venv build dist *.egg-info

# -- benchmarks ------------------------------------------------------------------------

# From the copy of tests/: beside the source tree, that would be imported.
BENCH = cd build/suite && ../venv-compiled/bin/python -m tests.bench.run \
	--amqpload ../amqpload --json ../bench.json

bench: $(COMPILED)/installed $(PURE)/installed build/suite/stamp build/amqpload
	$(BENCH) --pure ../venv-pure/bin/amqpd $(ARGS)

bench-smoke: $(COMPILED)/installed build/suite/stamp build/amqpload
	$(BENCH) --smoke $(ARGS)

build/amqpload: tests/bench/amqpload.c
	mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -o $@ $<

# -- environments ----------------------------------------------------------------------

.venv/created $(CHECKS)/created $(PURE)/created $(COMPILED)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "amqpd needs Python 3.11 or later; name one: make PYTHON=..."; exit 1; }
	$(call VENV,$(@D))
	touch $@

# What makes it faster is there if this machine has it ready-made.
.venv/installed: .venv/created build/wheel-native/stamp
	$(call INSTALL,.venv,build/wheel-native,[fast]) || \
		$(call INSTALL,.venv,build/wheel-native)
	touch $@

# The compiled build is tested with everything that makes it faster, the pure build
# with nothing but what it needs.
$(COMPILED)/installed: $(COMPILED)/created build/wheel-native/stamp
	$(call INSTALL,$(COMPILED),build/wheel-native,[test$(comma)fast]) || \
		$(call INSTALL,$(COMPILED),build/wheel-native,[test])
	touch $@

$(PURE)/installed: $(PURE)/created build/wheel-pure/stamp
	$(call INSTALL,$(PURE),build/wheel-pure,[test])
	touch $@

# The checks read the source tree; what it needs is installed beside them.
$(CHECKS)/installed: $(CHECKS)/created pyproject.toml
	AMQPD_PURE=1 $(CHECKS)/bin/pip install --quiet ".[test,dev]"
	$(CHECKS)/bin/pip uninstall --quiet --yes amqpd
	touch $@

# -- what is installed -----------------------------------------------------------------

# Compiled when there is a compiler; setup.py decides.
build/wheel-native/stamp: .venv/created $(SOURCES)
	$(call WHEEL,.venv,build/wheel-native)
	touch $@

build/wheel-pure/stamp: .venv/created $(SOURCES)
	export AMQPD_PURE=1; $(call WHEEL,.venv,build/wheel-pure)
	touch $@

build/suite/stamp: $(SUITE)
	rm -rf build/suite && mkdir -p build/suite
	cp -R pyproject.toml README.md tests interop build/suite/
	rm build/suite/tests/test_tidy.py
	touch $@
