# Begins every script of every package. Set before it: NAME, UNITS (all of dlqueue's), and FOLDERS, which
# are the package's own folders of Python files.
opt=/opt/dlqueue
etc=/etc/dlqueue
PATH=$PATH:/usr/local/bin:/usr/sbin:/sbin:/usr/local/sbin

installing() { :; } # what a package has to do itself stands in its own script
purged() { :; }

say() { echo "$NAME: $*" >&2; }

# Bytecode, so that a hook starts fast. Without it everything works as well.
compile() { [ -n "${PYTHONDONTWRITEBYTECODE-}" ] || "$1" -m compileall -q -f $FOLDERS >/dev/null 2>&1 || true; }
clean() { find $FOLDERS -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true; }

# slurmd drains a node whose prolog is gone. So it has to be certain that no Slurm names a hook of
# ours before one is removed: slurmctld itself has to say so, or there is no Slurm here.
may_name_hooks() {
    PATH=$PATH:/opt/slurm/bin:$(sed -n 's/.*"paths.slurm_bin": "\(.*\)".*/\1/p' $etc/node.json 2>/dev/null)
    slurm_is_here || return 1
    running=$(timeout 10 scontrol show config 2>/dev/null) || return 0
    files=$(cat /etc/slurm/*.conf /etc/slurm-llnl/*.conf /opt/slurm/etc/*.conf /run/slurm/conf/*.conf \
        /var/spool/slurm*/conf-cache/*.conf 2>/dev/null)
    case "$running $files" in *"$etc/hooks/"*) return 0 ;; esac
    # A script of the site that calls ours.
    for script in $(printf '%s\n%s\n' "$running" "$files" |
        sed -n 's/^[[:space:]]*\(Task\)\{0,1\}\(Prolog\|Epilog\)\(\[[0-9]*\]\)\{0,1\}[[:space:]]*=[[:space:]]*\(\/[^ #]*\).*/\4/Ip'); do
        ! grep -qs "$etc/hooks/" "$script" || return 0
    done
    return 1
} >/dev/null 2>&1

slurm_is_here() {
    command -v slurmd || command -v slurmctld || command -v scontrol || [ -e /etc/slurm ] || [ -e /opt/slurm ] ||
        grep -qsxE 'slurm(d|ctld)' /proc/[0-9]*/comm || systemctl cat slurmd.service || systemctl cat slurmctld.service
}

# What `dlqueue install` keeps is gone after `dlqueue uninstall`: until then Slurm's files lead here.
forget_settings() {
    [ -e $etc ] || return 0
    if may_name_hooks; then
        say "$etc stays, because Slurm may run $etc/hooks: they do nothing now, and exit with 0"
    elif [ -e $etc/install ] && command -v slurmctld >/dev/null; then
        say "$etc stays: it has what \`dlqueue uninstall\` puts back"
    else
        rm -rf $etc
    fi
}
