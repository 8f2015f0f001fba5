#!/bin/sh
# Sets up what `make demo` and `make test` need: Debian's Slurm and munge, and a virtual environment.
# Installs system packages only as root on Debian; elsewhere it says what is missing and how to get it.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# command, and the Debian package that brings it
needed="
slurmctld slurmctld
slurmd slurmd
sbatch slurm-client
slurmdbd slurmdbd
munged munge
lua5.1 lua5.1
lua5.4 lua5.4
prometheus prometheus
promtool prometheus
mariadbd mariadb-server-core
mariadb mariadb-client-core
ip iproute2
groff groff-base
fish fish
zsh zsh
erb ruby
chromium chromium
"

missing_packages() {
    PATH=$PATH:/usr/sbin:/sbin
    echo "$needed" | while read -r command package; do
        [ -z "$command" ] || command -v "$command" >/dev/null || echo "$package"
    done | sort -u
    # slurmctld's Lua plugin and luasocket are files, not commands
    find /usr/lib /usr/lib64 -name job_submit_lua.so 2>/dev/null | grep -q . || echo slurm-wlm-basic-plugins
    find /usr/lib /usr/lib64 /usr/local/lib -path '*5.1/socket/core.so' 2>/dev/null | grep -q . || echo lua-socket
    # LightGBM's wheel leans on the system's OpenMP
    find /usr/lib /lib /usr/lib64 -name 'libgomp.so.1' 2>/dev/null | grep -q . || echo libgomp1
    "$python" -c 'import venv, ensurepip' 2>/dev/null || echo python3-venv
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
.venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[train,dev]' >&2
touch .venv/ready
