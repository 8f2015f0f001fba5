#!/bin/sh
# Runs a command of this checkout under another Debian's Slurm, in a folder that debootstrap makes
# (as root; about 1 GB). Only that folder is written to; nothing of the machine's own Slurm is used.
#
#   contrib/packaging/other_slurm.sh trixie /opt/trixie .venv/bin/python -m pytest tests/integration/test_hooks.py
#
# trixie has Slurm 24.11, sid whatever is newest. What is mounted there is gone when the command ends.
set -eu
[ $# -ge 3 ] || { echo "usage: $0 SUITE FOLDER COMMAND..." >&2; exit 2; }
[ -n "${MOUNTS_ARE_OURS:-}" ] ||
    exec env MOUNTS_ARE_OURS=1 unshare --mount --propagation private sh "$0" "$@"
suite=$1 folder=$2
shift 2
here=$(cd "$(dirname "$0")/../.." && pwd)

share() { # folders of this machine with the root in folder $1
    root=$1
    shift
    for path; do
        mkdir -p "$root$path"
        mount --rbind "$path" "$root$path"
    done
}

make_root() {
    mkdir -p "$(dirname "$1")"
    ( # two roots may be made at the same time
        flock 9
        command -v debootstrap >/dev/null ||
            { apt-get update -qq && apt-get install -y --no-install-recommends debootstrap; }
    ) 9>"$(dirname "$1")/lock"
    debootstrap --variant=minbase "$suite" "$1"
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d" # no daemon starts by itself
    chmod +x "$1/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$1/etc/"
    share "$1" /proc /sys /dev
    # A mirror may lag behind: sid's lists are valid for a week.
    chroot "$1" env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get update -qq -o Acquire::Check-Valid-Until=false &&
        apt-get install -y -qq \
        --no-install-recommends slurmctld slurmd slurm-client slurmdbd slurm-wlm-basic-plugins \
        slurm-wlm-mysql-plugin munge lua-socket lua5.1 mariadb-server-core mariadb-client-core python3 git \
        iproute2 procps libssl3t64 libffi8 libsqlite3-0 libreadline8t64 libbz2-1.0 liblzma5 libgomp1 >&2'
    umount --lazy "$1/proc" "$1/sys" "$1/dev"
}

if [ ! -e "$folder/usr/sbin/slurmctld" ]; then # a root is whole or not there
    [ ! -e "$folder" ] || rmdir "$folder"
    rm -rf --one-file-system "$folder.new"
    make_root "$folder.new"
    mv -T "$folder.new" "$folder"
fi
mount --bind "$folder" "$folder" # a mount point, which `ip netns` wants / to be
cp /etc/resolv.conf /etc/hosts /etc/hostname "$folder/etc/"
share "$folder" /proc /sys /dev /tmp "$here"
home=$("$here/.venv/bin/python" -c 'import sys; print(sys.base_prefix)')
if [ "$home" = /usr ]; then # the system's Python, in place of the other release's
    mount --bind /usr/bin/python3 "$folder/usr/bin/python3"
    home=$("$here/.venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
fi
share "$folder" "$home"
exec chroot "$folder" env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 \
    sh -c 'cd "$0" && exec "$@"' "$here" "$@"
