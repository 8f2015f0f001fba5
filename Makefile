# What README and CONTRIBUTING name, and what that needs.
# Test files are dealt out to so many processes: on two cores five, as tests wait for three quarters of their time, for
# Slurm and for their own clocks (tests/order.py).
WORKERS = 5
PYTEST = .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo docs test test-journeys test-long suite setup check style types matrix matrix-full matrix-part mutants deb rpm wheelhouse dist clean

demo: .venv/ready-for-demo
	.venv/bin/dlqueue demo

# The documentation site, in build/docs: without network, for any web server or none.
docs: .venv/ready-for-docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --config-file contrib/docs/mkdocs.yml

# Thousands of processes start: none of them compiles the package anew, whatever the environment says.
test: export PYTHONDONTWRITEBYTECODE =
test: style
	$(MAKE) --no-print-directory --jobs=2 types suite

suite: .venv/ready-for-test
	$(PYTEST) --hypothesis-profile ci -m 'not long and not journey'

# Journeys: installs, the demo, the tutorials, a second run better than the first. Forty tests, nearly half of the time.
test-journeys: export PYTHONDONTWRITEBYTECODE =
# Whole journeys compute, and some want predictions that a crowded machine makes unsure.
test-journeys: WORKERS = 3
test-journeys: .venv/ready-for-test
	$(PYTEST) --hypothesis-profile ci -m 'journey and not long'

# What is long and rarely tells more than its short form in `make test`, and 2,000 examples of every property.
test-long: .venv/ready-for-test
	$(PYTEST) --hypothesis-profile hunt -m 'long or hypothesis'

# Tests of the real Slurm under other releases of it, those of newer Debians, as root: a part that reads and writes what
# differs, or all. Each release is kept in build/slurm (1 GB).
RELEASES = trixie sid
matrix: TESTS = tests/slurm/test_client_contract.py tests/integration/test_hooks.py tests/integration/test_pairing.py \
	tests/integration/test_submit_edits.py tests/integration/test_loop.py tests/integration/test_install_joined.py
matrix: .venv/ready-for-test
	for release in $(RELEASES); do \
		contrib/packaging/other_slurm.sh $$release build/slurm/$$release \
			.venv/bin/python -m pytest -q $(TESTS) || exit 1; \
	done

# All of them, under this machine's Slurm as well, and the table of contrib/bench/matrix.md; it goes on where it stopped.
matrix-full: .venv/ready-for-test
	.venv/bin/python -m contrib.bench.matrix --state build/slurm/reports --page contrib/bench/matrix.md

# A smaller part, as CI runs it after the tests: all releases at the same time, as their tests mostly wait, for fifteen
# minutes at most, and a line where one cannot be measured.
PART = tests/slurm/test_client_contract.py tests/integration/test_pairing.py tests/integration/test_submit_edits.py
matrix-part: .venv/ready-for-test
	$(MAKE) --no-print-directory --jobs --keep-going --output-sync=target $(RELEASES:%=matrix-part-%)

$(RELEASES:%=matrix-part-%): matrix-part-%:
	MINUTES=15 contrib/packaging/matrix_part.sh $* $(PART)

# Changes of one room's code that its tests do not notice: make mutants ROOM=policy [SAMPLE=300 [SEED=2]]
mutants: .venv/ready-for-mutants
	.venv/bin/python contrib/packaging/mutants.py $(ROOM) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

check: style types

style: .venv/ready-for-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: .venv/ready-for-test
	.venv/bin/mypy

setup: .venv/ready-for-test

.venv/ready-for-%: pyproject.toml constraints.txt contrib/packaging/setup.sh
	contrib/packaging/setup.sh $*

# Packages of the tree: build/packages. OPTIONS="--only node", OPTIONS="--python 3.13": see contrib/packaging/packages
deb rpm wheelhouse: build/tools/ready
	build/tools/bin/python -m contrib.packaging.packages $@ $(OPTIONS)

# A wheel and its source, as a package index takes them: build/dist
dist: build/tools/ready
	rm -rf build/dist
	build/tools/bin/python -m build --outdir build/dist
	build/tools/bin/twine check --strict build/dist/*

build/tools/ready:
	python3 -m venv build/tools
	build/tools/bin/pip install -q --disable-pip-version-check build twine
	touch $@

clean:
	rm -rf .venv build *.egg-info
