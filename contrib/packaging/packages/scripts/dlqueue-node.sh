# The interpreter of the hooks, which end well and do nothing with one that is too old (EL8: 3.6).
installed() {
    python=$(sed -n 's/.*"node.python": "\(.*\)".*/\1/p' $etc/node.json 2>/dev/null) || true
    python=${python:-/usr/bin/python3}
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        compile "$python"
    else
        say "$python is no Python of 3.9 or newer: hooks will do nothing until node.python in" \
            "dlqueue.toml names one, such as /usr/bin/python3.9 or /usr/bin/python3.11"
    fi
}

leaving() {
    # Records that wait: the advisor may be there.
    timeout 10 /usr/bin/python3 -I -S $opt/lib/slurm_ext/node/__main__.py ship $etc/node.json \
        >/dev/null 2>&1 || true
    clean
    ! may_name_hooks || [ ! -e $etc/hooks ] ||
        say "jobs go on, unmeasured: $etc/hooks stays, does nothing and exits with 0. To take it out of" \
            "slurm.conf: dlqueue uninstall hooks --reconfigure, on the controller"
}

purged() {
    spool=/var/spool/dlqueue
    if [ -n "$(ls -A $spool/out 2>/dev/null)" ]; then
        say "$spool stays: it has records that were not delivered"
    else
        rm -rf $spool
    fi
    [ -e $opt/bin/dlqueue ] || forget_settings
}
