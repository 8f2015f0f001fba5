#!/bin/sh
# Writes constraints.txt from what the virtual environment holds now; locked.txt, the part of it that
# dlqueue itself needs, and locked-EXTRA.txt, what an extra needs as well, all with the hashes of all
# files that PyPI has (by pip-tools, in minutes).
set -eu
cd "$(dirname "$0")/../.."
{
    echo '# The exact versions that `make demo`, `make docs` and `make test` install. Regenerate: contrib/packaging/lock.sh'
    .venv/bin/pip freeze --exclude-editable | sed 's/^\(torch==[0-9.]*\)+.*/\1/'
} > constraints.txt.new
mv constraints.txt.new constraints.txt

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install -q pip-tools
needs_of() { # extra, without PyTorch: a site chooses its index (CPU, CUDA)
    .venv/bin/python -c 'import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*(need for need in project["optional-dependencies"][sys.argv[1]] if not need.startswith("torch")), sep="\n")' "$1"
}
lock() { # title, file, arguments
    title=$1 file=$2
    shift 2
    {
        echo "# $title, each file by its hash: pip install --require-hashes -r this."
        echo '# The versions are those of constraints.txt. Regenerate: contrib/packaging/lock.sh'
        "$tools/bin/pip-compile" -q --generate-hashes --strip-extras --allow-unsafe --no-header --no-annotate \
            --no-emit-index-url --no-emit-find-links -c constraints.txt -o "$tools/locked.txt" "$@" >&2
        cat "$tools/locked.txt"
    } > "$file.new"
    mv "$file.new" "$file"
    rm "$tools/locked.txt"
}
lock 'dlqueue and what it needs to be built' contrib/packaging/locked.txt --build-deps-for wheel pyproject.toml
for extra in pairs plots train; do
    needs_of $extra > "$tools/$extra.in"
    case $extra in train) but=', but PyTorch' ;; *) but= ;; esac
    lock "Packages of the extra $extra$but" contrib/packaging/locked-$extra.txt "$tools/$extra.in"
done
