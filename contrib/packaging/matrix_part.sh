#!/bin/sh
# Runs tests of this checkout under another Debian's Slurm, as CI does: for at most MINUTES (10), with
# the making of its root, which is kept. Where no root can be made or time is up it says so in one
# line and succeeds; a test that fails there fails it.
#
#   contrib/packaging/matrix_part.sh trixie tests/integration/test_pairing.py
set -u
[ $# -ge 2 ] || { echo "usage: $0 SUITE TEST..." >&2; exit 2; }
suite=$1
shift
cd "$(dirname "$0")/../.." || exit 2
root=build/slurm/$suite
end=$(($(date +%s) + ${MINUTES:-10} * 60))

not_measured() {
    echo "matrix: not measured under the Slurm of $suite: $*" >&2
    exit 0
}

# Whatever is left of the minutes; SIGINT, so that tests take their daemons down.
inside() {
    left=$((end - $(date +%s)))
    [ $left -gt 0 ] || return 124
    timeout --signal=INT --kill-after=60 $left contrib/packaging/other_slurm.sh "$suite" "$root" "$@"
}

[ "$(id -u)" = 0 ] || not_measured "only root makes the root of another system"
mkdir -p build/slurm
if ! inside true >"$root.log" 2>&1; then
    not_measured "no root was made in ${MINUTES:-10} minutes: $(grep . "$root.log" | tail -n 1)"
fi
inside .venv/bin/python -m pytest -q -x "$@"
status=$?
if [ $status -ge 124 ] && [ "$(date +%s)" -ge $end ]; then
    not_measured "its tests did not end in ${MINUTES:-10} minutes"
fi
exit $status
