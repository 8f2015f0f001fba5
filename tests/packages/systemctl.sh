#!/bin/sh
# systemd, as far as Ansible asks it: services run, their pids and words are kept below /run.
verb='' unit=''
for word; do
    case $word in
        -*) ;;
        *) if [ -z "$verb" ]; then verb=$word; else unit=${word%.service}; fi ;;
    esac
done
pid=/run/$unit.pid
file=/etc/systemd/system/$unit.service

up() { [ -e "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }

value() { sed -n "s/^$1=//p" "$file"; }

stop() {
    up && kill "$(cat "$pid")"
    while up; do sleep 0.05; done
}

start() {
    up && return
    for folder in /var/lib/$(value StateDirectory) /run/$(value RuntimeDirectory); do
        mkdir -p "$folder"
    done
    # shellcheck disable=SC2046 # words are meant
    setsid $(value ExecStart) </dev/null >>"/var/log/$unit.out" 2>&1 &
    echo $! >"$pid"
}

echo "$verb $unit" >>/run/systemctl.log
case $verb in
    show)
        [ -e "$file" ] || { echo LoadState=not-found; exit; }
        up && state=active || state=inactive
        printf 'LoadState=loaded\nActiveState=%s\n' $state
        ;;
    is-enabled) [ -e "/run/$unit.enabled" ] && echo enabled || { echo disabled; exit 1; } ;;
    is-active) up && echo active || { echo inactive; exit 3; } ;;
    enable) touch "/run/$unit.enabled" ;;
    start | stop) $verb ;;
    restart) stop; start ;;
    daemon-reload) ;;
    *) echo "systemctl $verb?" >&2; exit 1 ;;
esac
