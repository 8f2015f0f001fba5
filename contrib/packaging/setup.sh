#!/bin/sh
# Sets up Debian's Slurm and munge, and a virtual environment: `setup.sh demo` what dlqueue and its
# demo need, `setup.sh test` (or nothing) what the tests need as well, `setup.sh docs` what the
# documentation site needs alone.
# Installs system packages only as root on Debian; elsewhere it says what is missing and how to get it.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

purpose=${1:-test}

# command, and the Debian package that brings it
needed="
slurmctld slurmctld
slurmd slurmd
sbatch slurm-client
munged munge
"
needed_by_tests="
slurmdbd slurmdbd
mariadbd mariadb-server-core
mariadb mariadb-client-core
ip iproute2
systemd-analyze systemd
lua5.1 lua5.1
lua5.3 lua5.3
lua5.4 lua5.4
prometheus prometheus
promtool prometheus
groff groff-base
fish fish
zsh zsh
erb ruby
chromium chromium
perf linux-perf
cc gcc
rpmbuild rpm
"
case $purpose in
    docs) extras=docs; needed= ;;
    demo) extras=all ;;
    test) extras=all,dev,docs; needed=$needed$needed_by_tests ;;
    mutants) extras=all,dev,docs,mutants; needed=$needed$needed_by_tests ;;
    *) die "$purpose: expected demo, test, docs or mutants" ;;
esac

any_of() {
    for path; do
        [ ! -e "$path" ] || return 0
    done
    return 1
}

missing_packages() {
    PATH=$PATH:/usr/sbin:/sbin
    echo "$needed" | while read -r command package; do
        [ -z "$command" ] || command -v "$command" >/dev/null || echo "$package"
    done | sort -u
    "$python" -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
    [ "$purpose" != docs ] || return 0
    # slurmctld's Lua plugin and luasocket are files, not commands
    any_of /usr/lib*/slurm*/job_submit_lua.so /usr/lib/*/slurm*/job_submit_lua.so || echo slurm-wlm-basic-plugins
    any_of /usr/lib*/lua/5.1/socket/core.so /usr/lib/*/lua/5.1/socket/core.so \
        /usr/local/lib/lua/5.1/socket/core.so || echo lua-socket
    # gcc alone brings no headers
    [ "$purpose" != test ] || any_of /usr/include/stdio.h || echo libc6-dev
    # LightGBM's wheel leans on the system's OpenMP
    any_of /usr/lib*/libgomp.so.1 /usr/lib/*/libgomp.so.1 || echo libgomp1
}

command -v "$python" >/dev/null || die "python3 is missing; on Debian: apt-get install python3 python3-venv"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    die "Python 3.11 or newer is needed, $python is $("$python" -V 2>&1); set PYTHON=/path/to/python3.11"

missing=$(missing_packages | tr '\n' ' ')
if [ -n "$missing" ]; then
    missing=${missing% }
    install="apt-get install --no-install-recommends $missing"
    alone="\`dlqueue predict\` needs none of it: $python -m venv .venv && .venv/bin/pip install -c constraints.txt -e ."
    command -v apt-get >/dev/null ||
        die "missing (Debian's names): $missing. There is no apt-get here: install their equivalents (Slurm with its Lua plugin, munge, luasocket). $alone"
    [ "$(id -u)" = 0 ] || die "missing: $missing. As root: $install. $alone"
    say "installing: $missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # The packages' own services must not start: the sandbox brings its own daemons.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' > $policy
        chmod +x $policy
        trap 'rm -f $policy' EXIT
    fi
    # shellcheck disable=SC2086 # a list of words is meant
    apt-get install -y -qq --no-install-recommends $missing >&2
fi

[ -x .venv/bin/python ] || { say "creating .venv"; "$python" -m venv .venv; }
say "installing Python packages (torch is the large one)"
# compat: a plain path, where setuptools' finder would cost every Python process 20 ms
.venv/bin/python -m pip install -q --disable-pip-version-check --config-settings editable_mode=compat \
    -c constraints.txt -e ".[$extras]" >&2
touch ".venv/ready-for-$purpose"
case $purpose in
    test | mutants) touch .venv/ready-for-demo .venv/ready-for-docs ;;
esac
