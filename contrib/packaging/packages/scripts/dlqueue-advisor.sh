installing() {
    for other in $opt/lib/python3*/site-packages/slurm_ext; do
        [ ! -e "$other" ] || {
            say "$opt was made by pip: move it away first (mv $opt $opt.pip)"
            exit 1
        }
    done
}

with_systemd() { [ -d /run/systemd/system ]; }

installed() {
    compile $opt/bin/python3
    if with_systemd; then
        systemctl daemon-reload || true
        # Those that run go on with the new files. A loop puts back what it changed before it ends.
        [ -z "${1-}" ] || systemctl try-restart $UNITS || say "see systemctl status $UNITS"
    fi
    [ ! -e $etc/install/installed.json ] || told=$($opt/bin/dlqueue install files --dry-run 2>&1) || true
    case ${told-every file is} in
        "every file is"*) ;;
        *) say "hooks and Lua are those of before: dlqueue install files --dry-run shows what is new" ;;
    esac
}

leaving() {
    if [ -n "${DLQUEUE_UNINSTALL-}" ]; then
        $opt/bin/dlqueue uninstall --reconfigure || {
            [ $? = 3 ] || exit 1 # what Slurm does not take was put back, and nothing is removed
            say "$etc/hooks stays: nodes may have copies of slurm.conf that name it"
        }
    elif [ -e $etc/install/installed.json ]; then
        say "Slurm's files keep dlqueue's lines, which do nothing now. To take them out, before or" \
            "after installing it again: dlqueue uninstall (or DLQUEUE_UNINSTALL=1 when it is removed)"
    fi
    ! with_systemd || systemctl disable --now $UNITS || true
    clean
}

purged() {
    [ ! -e /var/lib/dlqueue/history.db ] || say "/var/lib/dlqueue stays: it is what dlqueue learned"
    [ -e $opt/lib/slurm_ext/node ] || forget_settings
}
