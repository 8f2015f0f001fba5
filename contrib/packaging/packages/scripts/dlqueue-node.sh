installed() { compile /usr/bin/python3; }

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
