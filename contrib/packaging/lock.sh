#!/bin/sh
# Writes constraints.txt from what the virtual environment holds now, and locked.txt, the part of it
# that dlqueue itself needs, with the hashes of all files that PyPI has (by pip-tools, in minutes).
set -eu
cd "$(dirname "$0")/../.."
{
    echo '# The exact versions that `make demo` and `make test` install. Regenerate: contrib/packaging/lock.sh'
    .venv/bin/pip freeze --exclude-editable | sed 's/^\(torch==[0-9.]*\)+.*/\1/'
} > constraints.txt.new
mv constraints.txt.new constraints.txt

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install -q pip-tools
{
    echo '# dlqueue and what it needs to be built, each file by its hash: pip install --require-hashes -r this.'
    echo '# The versions are those of constraints.txt. Regenerate: contrib/packaging/lock.sh'
    "$tools/bin/pip-compile" -q --generate-hashes --strip-extras --allow-unsafe --no-header --no-annotate \
        --no-emit-index-url --no-emit-find-links --build-deps-for wheel -c constraints.txt \
        -o "$tools/locked.txt" pyproject.toml >&2
    cat "$tools/locked.txt"
} > contrib/packaging/locked.txt.new
mv contrib/packaging/locked.txt.new contrib/packaging/locked.txt
