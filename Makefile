# The two commands of the README, and what they need.
.PHONY: demo test setup check clean

demo: .venv/ready
	.venv/bin/dlqueue demo

test: .venv/ready check
	.venv/bin/python -m pytest

check: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt contrib/packaging/setup.sh
	contrib/packaging/setup.sh

clean:
	rm -rf .venv build *.egg-info
