#!/bin/sh
# Writes constraints.txt from what the virtual environment holds now.
set -eu
cd "$(dirname "$0")/../.."
{
    echo '# The exact versions that `make demo` and `make test` install. Regenerate: contrib/packaging/lock.sh'
    .venv/bin/pip freeze --exclude-editable | sed 's/^\(torch==[0-9.]*\)+.*/\1/'
} > constraints.txt.new
mv constraints.txt.new constraints.txt
