# Every target sets up what it needs: a virtual environment in .venv with pinned dependencies.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests and benchmarks run side by side on all cores, each with one BLAS thread.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# A worker has whole files for the most part, and what their tests share is made once.
WORKERS := -n auto --dist worksteal

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "dpcov needs Python 3.11 or newer; say which with make PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "Python's own venv module is needed: on \
	Debian and Ubuntu, apt install python3-venv"; exit 1; }

.venv/ready-%: .venv/bin/python requirements/%.txt pyproject.toml
	$(PIP) --require-hashes --requirement requirements/$*.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# PySpark comes as source alone: what builds it is pinned as well, and there first.
.venv/ready-spark: .venv/ready-test requirements/setuptools.txt requirements/spark.txt
	$(PIP) --require-hashes --requirement requirements/setuptools.txt
	$(PIP) --no-build-isolation --require-hashes --requirement requirements/spark.txt
	@touch $@

demo: .venv/ready-demo ## Run the demo on a bundled table of simulated hospital visits
	@$(BIN)/dpcov demo

test: .venv/ready-test ## Run all tests except the slow ones, statistics and the papers
	$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m "not slow and not statistics and not peers and not papers"

test-slow: .venv/ready-test ## Run the slow tests of privacy and of behaviour
	$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m "slow and not pages and not spark and not papers"

test-statistics: .venv/ready-test ## Measure coverage, calibration and power (not part of CI)
	$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m statistics

test-papers: .venv/ready-test ## Run the tests of the papers' mechanisms
	$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m "papers and not statistics"

test-peers: .venv/ready-test .venv/ready-bench ## Run scikit-learn's own tests and comparisons with other libraries
	$(ONE_THREAD) $(BIN)/python -m pytest tests/test_nist.py tests/test_peers.py tests/test_stand_ins.py

test-spark: .venv/ready-spark ## Run the tests of Spark (needs Java; downloads 450 MB once)
	$(ONE_THREAD) $(BIN)/python -m pytest tests/test_spark.py

wheel: .venv/ready-test ## Build the sdist and the wheel, and run the demo from the wheel
	.ci/wheel $(PYTHON)

tasks: wheel ## Run examples/tasks from the wheel, beside pandas, statsmodels, lavaan and psych
	$(ONE_THREAD) .ci/tasks

r: ## Check the R package (R with jsonlite, knitr, markdown and lavaan; qpdf)
	.ci/r

workflows: ## Check the workflows of GitHub (actionlint, or npm with Node.js)
	.ci/workflows

lint: .venv/ready-lint docstrings ## Check style, imports and docstrings; print code lines by package
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python tools/prose.py
	$(BIN)/python benchmarks/lines.py

docstrings: .venv/ready-docs ## Check the docstrings of all public names
	$(BIN)/python tools/docstrings.py

prose: .venv/ready-lint ## Check the prose of documentation, docstrings, comments and messages
	$(BIN)/python tools/prose.py $(ARGS)

types: .venv/ready-lint ## Check types
	$(BIN)/mypy
	MYPYPATH=src $(BIN)/mypy tests/typing_cases.py
	$(BIN)/mypy --config-file tools/mypy.ini

data: .venv/ready-bench ## Download the public tables that the repository does not contain
	$(BIN)/python benchmarks/fetch.py

# The scripts of benchmarks/ by their file names: make bench NAME=missing. Those that measure scaling need all
# BLAS threads, the others have one.
NAME ?= bench
ALL_THREADS := bench scaling engines frames
IN_FOLDERS := PYTHONPATH=benchmarks:experiments:benchmarks/mechanisms:tests
script = $(firstword $(wildcard benchmarks/$(NAME).py benchmarks/mechanisms/$(NAME).py examples/$(NAME).py))

bench: .venv/ready-bench .venv/ready-test ## Run a script of benchmarks/ (NAME=missing ARGS=...)
	$(if $(script),,$(error There is no script $(NAME) in benchmarks/))
	$(if $(filter spark,$(NAME)),$(MAKE) .venv/ready-spark)
	$(if $(filter $(NAME),$(ALL_THREADS)),,$(ONE_THREAD)) $(IN_FOLDERS) $(BIN)/python $(script) $(ARGS)

entrants: .venv/ready-bench ## Measure errors now, at an earlier commit and of other libraries (PART=tune BEFORE=folder SEEDS=50)
	$(ONE_THREAD) $(IN_FOLDERS) $(BIN)/python \
		benchmarks/before_and_now.py $(PART) $(if $(BEFORE),--before $(BEFORE)) \
		$(if $(SEEDS),--seeds $(SEEDS))

# Targets of version 0.2 and the scripts that they ran. They go in version 0.5.
FORMER := ways bench-scaling peers arena estimates judge notebooks reads persons spark accuracy engines \
	frames denoising pictures plan-calibration ridge-comparison calibration interval-coverage missing \
	mahalanobis report-picture
bench-scaling: NAME = scaling
arena: NAME = mechanism_benchmark
arena: ARGS = --processes 2
judge: NAME = acceptance
judge: ARGS = $(PART)
calibration: ARGS = $(PART) $(SEEDS)
estimates: ARGS = $(BEFORE) $(if $(SEEDS),--seeds $(SEEDS))
$(filter-out bench-scaling arena judge,$(FORMER)): NAME = $(subst -,_,$@)
$(FORMER):
	@echo "make $@ is deprecated: use make bench NAME=$(NAME)$(if $(ARGS), ARGS=\"$(ARGS)\")" >&2
	@$(MAKE) --no-print-directory bench NAME=$(NAME) ARGS="$(ARGS)"

reproduce: .venv/ready-bench ## Run the papers' experiments, claim by claim (PAPER=name)
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python experiments/reproduce.py --no-controls $(PAPER)

reproduce-controls: .venv/ready-bench ## Run the same experiments, and each with a planted fault (PAPER=name)
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python experiments/reproduce.py $(PAPER)

reproduce-faults: .venv/ready-bench ## Judge the noise of the registered mechanisms, also with planted faults
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python experiments/registered.py

reproduce-seeds: .venv/ready-bench ## Run the same experiments with five other seeds (PAPER=name)
	for run in 1 2 3 4 5; do $(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python \
		experiments/reproduce.py --run $$run --no-controls $(PAPER) || exit 1; done

colon: .venv/ready-bench ## Run the experiment on 2,000 genes, minutes (DPCOV_DATA=folder; ARGS=--all for all noise)
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python experiments/wang2018/colon.py $(ARGS)

app: .venv/ready-bench .venv/ready-test ## Drive dpcov app by keyboard in Chromium, with axe-core (needs npm)
	$(ONE_THREAD) $(IN_FOLDERS) $(BIN)/python benchmarks/app_by_keyboard.py $(KINDS)

trust: .venv/ready-test .venv/ready-fuzz ## Attack the library and print a figure for each attack
	$(ONE_THREAD) PYTHONPATH=benchmarks:trust $(BIN)/python trust/trust.py
	$(ONE_THREAD) PYTHONPATH=benchmarks:trust $(BIN)/python trust/auditors.py $(AUDITORS)

mutants: .venv/ready-test ## Plant small faults in the modules that carry the guarantee; tests must find them
	$(ONE_THREAD) PYTHONPATH=benchmarks:trust $(BIN)/python trust/mutants.py

figures: .venv/ready-bench ## Put measured results into the documentation
	$(BIN)/python benchmarks/figures.py

docs: .venv/ready-docs ## Build the documentation site in docs/_build
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going --quiet --jobs auto docs docs/_build

LOCK_OF := uv pip compile --quiet --constraint constraints.txt \
	--generate-hashes --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url
LOCK := $(LOCK_OF) pyproject.toml requirements/build.in

locks: ## Pin all dependencies with hashes (needs uv)
	$(LOCK) --output-file requirements/core.txt
	for extra in app demo test bench lint docs spark fuzz sbom tasks; do \
		$(LOCK) --extra $$extra --output-file requirements/$$extra.txt || exit 1; done
	echo setuptools | $(LOCK_OF) - --output-file requirements/setuptools.txt

sbom: .venv/ready-sbom ## Write the software bill of materials
	$(PYTHON) -m venv --clear .venv/core
	.venv/core/bin/python -m pip install --quiet --require-hashes --requirement requirements/core.txt
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file docs/sbom.json .venv/core/bin/python

schemas: .venv/ready-test ## Write the files that are generated from the code
	$(BIN)/python -m dpcov.cli.json_schemas docs/json-schema
	$(BIN)/python -m dpcov.analysis.declared
	$(BIN)/python tests/public_stub.py
	$(BIN)/python docs/_ext/decisions.py

clean: ## Remove the environment and everything generated
	rm -rf .venv demo dist results docs/_build

.PHONY: help demo test test-slow test-statistics test-papers test-peers test-spark r workflows lint docstrings types prose data \
	wheel tasks bench entrants reproduce reproduce-controls reproduce-faults reproduce-seeds colon trust mutants figures docs app locks sbom schemas clean $(FORMER)

