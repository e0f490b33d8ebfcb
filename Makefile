# Every target sets up what it needs: a virtual environment in .venv with pinned dependencies.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests and benchmarks run side by side on all cores, each with one BLAS thread.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# A worker has whole files for the most part, and what their tests share is made once.
WORKERS := -n auto --dist worksteal

.PHONY: help demo test test-slow test-papers test-peers test-spark test-all lint types data wheel bench ways bench-scaling peers arena frontier entrants estimates judge notebooks persons csv reads \
	spark accuracy reproduce reproduce-seeds engines frames analysis discriminant precision \
	denoising pictures report-picture plan-calibration ridge-comparison calibration interval-coverage tried missing counts mahalanobis trust mutants figures docs locks sbom schemas clean

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

demo: .venv/ready-demo ## A real health table through the whole journey
	@$(BIN)/dpcov demo

test: .venv/ready-test ## All tests but the slow statistical ones and those of the papers' mechanisms
	$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m "not slow and not peers and not papers"

test-slow: .venv/ready-test ## The slow statistical tests, and small experiments
	$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m "slow and not pages and not spark and not papers"

test-papers: .venv/ready-test ## The tests of the papers' mechanisms, slow ones too
	$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m papers

test-peers: .venv/ready-test .venv/ready-bench ## Certified regressions, laws of compared libraries, scikit-learn's own tests
	$(ONE_THREAD) $(BIN)/python -m pytest tests/test_nist.py tests/test_peers.py tests/test_stand_ins.py

test-spark: .venv/ready-spark ## The tests of Spark (needs Java; fetches 450 MB once, then takes four minutes)
	$(ONE_THREAD) $(BIN)/python -m pytest tests/test_spark.py

test-all: .venv/ready-test ## All tests
	$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS)

wheel: .venv/ready-test ## Build sdist and wheel; the wheel runs its demo in an empty environment
	.ci/wheel $(PYTHON)

lint: .venv/ready-lint ## Check style and imports; print code lines by package
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python benchmarks/lines.py

types: .venv/ready-lint ## Types of src, strictly, and of what a caller may write
	$(BIN)/mypy
	MYPYPATH=src $(BIN)/mypy tests/typing_cases.py

data: .venv/ready-bench ## Fetch the public tables that can't ship with the repository
	$(BIN)/python benchmarks/fetch.py

bench: .venv/ready-bench ## Speed and memory against plain loops and peers
	$(BIN)/python benchmarks/bench.py

ways: .venv/ready-bench ## How long the ways of a cell and of an epsilon are in a release
	$(ONE_THREAD) $(BIN)/python benchmarks/ways.py

bench-scaling: .venv/ready-bench ## Time and memory against rows, columns and workers
	$(BIN)/python benchmarks/scaling.py

peers: .venv/ready-bench ## Errors beside those of other libraries, where they are installed
	$(ONE_THREAD) $(BIN)/python benchmarks/peers.py

arena: .venv/ready-bench ## Everyone against everyone; goes on where it ended
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments:benchmarks/arena $(BIN)/python \
		benchmarks/arena/arena.py --processes 2

frontier: .venv/ready-bench ## The default over one matrix, and adult with its levels, beside their bars
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments:benchmarks/arena $(BIN)/python \
		benchmarks/arena/frontier.py

entrants: .venv/ready-bench ## What users read, now, at an earlier commit and of peers (PART=tune BEFORE=folder SEEDS=50)
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments:benchmarks/arena $(BIN)/python \
		benchmarks/before_and_now.py $(PART) $(if $(BEFORE),--before $(BEFORE)) \
		$(if $(SEEDS),--seeds $(SEEDS))

estimates: .venv/ready-bench ## Errors of the estimate over an earlier version's, of the same releases (BEFORE=folder)
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments:benchmarks/arena $(BIN)/python \
		benchmarks/estimates.py $(BEFORE) $(if $(SEEDS),--seeds $(SEEDS))

judge: .venv/ready-bench ## The default beside its bars, from what make entrants kept (PART=tune)
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments:benchmarks/arena $(BIN)/python \
		benchmarks/judge.py $(PART)

notebooks: .venv/ready-bench ## The stories of examples/ as notebooks
	$(BIN)/python examples/notebooks.py

csv: .venv/ready-bench ## CPU of releases of text files beside the commit before a row was a record
	$(BIN)/python benchmarks/csv_files.py

reads: .venv/ready-bench .venv/ready-test ## CPU of releases of pandas, PostgreSQL and SQLite beside plain reads
	$(ONE_THREAD) PYTHONPATH=benchmarks:tests $(BIN)/python benchmarks/reads.py

persons: .venv/ready-bench ## Person-level privacy: memory at millions of persons, and what it costs
	$(ONE_THREAD) $(BIN)/python benchmarks/persons.py

spark: .venv/ready-bench .venv/ready-spark ## Spark: bytes, tasks and CPU beside the cost model (needs Java)
	$(ONE_THREAD) $(BIN)/python benchmarks/spark.py

accuracy: .venv/ready-bench ## Error of releases against the figures of the design
	$(ONE_THREAD) $(BIN)/python benchmarks/accuracy.py

reproduce: .venv/ready-bench ## The papers' experiments, claim by claim, and each under its fault (PAPER=name)
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python experiments/reproduce.py $(PAPER)

reproduce-seeds: .venv/ready-bench ## The same verdicts for five other seeds (PAPER=name)
	for run in 1 2 3 4 5; do $(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python \
		experiments/reproduce.py --run $$run --no-controls $(PAPER) || exit 1; done

engines: .venv/ready-bench ## CPU and memory of the table engines that were considered
	$(BIN)/python benchmarks/engines.py

frames: .venv/ready-bench ## Seconds of the direction sampler up to 1000 columns
	$(BIN)/python benchmarks/frames.py

analysis: .venv/ready-bench ## Seconds of analyses of one release with 108 features
	$(ONE_THREAD) $(BIN)/python benchmarks/analysis.py

discriminant: .venv/ready-bench ## Accuracy of discriminant analysis beside the non-private one
	$(ONE_THREAD) $(BIN)/python benchmarks/discriminant.py

precision: .venv/ready-bench ## Solvers of the graphical lasso that are installed, beside ours
	$(ONE_THREAD) $(BIN)/python benchmarks/precision.py

denoising: .venv/ready-bench ## Errors of releases before and after denoising
	$(ONE_THREAD) $(BIN)/python benchmarks/denoising.py

pictures: .venv/ready-bench ## Components and a graph from releases, beside those of the tables
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python benchmarks/pictures.py

plan-calibration: .venv/ready-bench ## Predicted errors beside measured ones
	$(ONE_THREAD) $(BIN)/python benchmarks/plan_calibration.py

ridge-comparison: .venv/ready-bench ## Ridge from one release against AdaSSP and output perturbation
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python benchmarks/ridge_comparison.py

tried: .venv/ready-bench ## What was tried for the default: shares of its second look, bands for long rows
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments:benchmarks/arena $(BIN)/python benchmarks/tried.py

missing: .venv/ready-bench ## Errors with missing values beside those of as many complete rows
	$(ONE_THREAD) $(BIN)/python benchmarks/missing.py

calibration: .venv/ready-bench ## What releases say of their own errors, and whether it is true (PART=tune SEEDS=10)
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python \
		benchmarks/calibration.py $(PART) $(SEEDS)

interval-coverage: .venv/ready-bench ## Coverage of the intervals that cover sampling too
	$(ONE_THREAD) PYTHONPATH=benchmarks:experiments $(BIN)/python benchmarks/interval_coverage.py

counts: .venv/ready-bench ## Errors of the number of rows, on tables of 30 shapes
	$(ONE_THREAD) $(BIN)/python benchmarks/counts.py

mahalanobis: .venv/ready-bench ## Errors relative to the covariance, without bounds on it
	$(ONE_THREAD) $(BIN)/python benchmarks/mahalanobis.py
	$(ONE_THREAD) $(BIN)/python benchmarks/whitened.py
	$(ONE_THREAD) $(BIN)/python benchmarks/unbounded.py

trust: .venv/ready-test .venv/ready-fuzz ## Attacks on the library, and the figure that each gives
	$(ONE_THREAD) PYTHONPATH=benchmarks:trust $(BIN)/python trust/trust.py

mutants: .venv/ready-test ## Small faults in the modules that carry the guarantee; tests must notice
	$(ONE_THREAD) PYTHONPATH=benchmarks:trust $(BIN)/python trust/mutants.py

figures: .venv/ready-bench ## Put measured results into the documents (after accuracy, bench, bench-scaling, persons, engines, reads, arena, trust, reproduce)
	$(BIN)/python benchmarks/figures.py

docs: .venv/ready-docs ## The documentation site, in docs/_build; runs every page
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going --quiet --jobs auto docs docs/_build

LOCK_OF := uv pip compile --quiet --constraint constraints.txt \
	--generate-hashes --universal --python-version 3.11 --no-header --no-annotate --no-emit-index-url
LOCK := $(LOCK_OF) pyproject.toml requirements/build.in

locks: ## Pin what is installed, with hashes, from constraints.txt (needs uv)
	$(LOCK) --output-file requirements/core.txt
	for extra in demo test bench lint docs spark fuzz sbom; do \
		$(LOCK) --extra $$extra --output-file requirements/$$extra.txt || exit 1; done
	echo setuptools | $(LOCK_OF) - --output-file requirements/setuptools.txt

sbom: .venv/ready-sbom ## The software bill of materials of a plain installation
	$(PYTHON) -m venv --clear .venv/core
	.venv/core/bin/python -m pip install --quiet --require-hashes --requirement requirements/core.txt
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file docs/sbom.json .venv/core/bin/python

schemas: .venv/ready-test ## What is written from the code: JSON Schemas, the stub of public names, the table of what auto takes
	$(BIN)/python -m dpcov.cli.json_schemas docs/json-schema
	$(BIN)/python tests/public_stub.py
	$(BIN)/python docs/_ext/decisions.py

report-picture: .venv/ready-bench ## The README's picture of a report (needs Chromium)
	$(BIN)/python benchmarks/report_picture.py

clean: ## Remove the environment and everything generated
	rm -rf .venv demo dist results docs/_build
