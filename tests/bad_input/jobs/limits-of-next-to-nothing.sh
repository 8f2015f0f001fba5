#!/bin/bash
set -e
echo ran
umask 777
export TMPDIR=/proc/self PYTHONPATH=$PYTHONPATH:own
ulimit -n 16 -t 5 -v 1000000 -f 0
exec python3 -c 'pass' <&-
