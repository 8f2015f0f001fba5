#!/bin/bash
export PYTHONHOME=/nonexistent PYTHONUTF8=2 PYTHONMALLOC=none TZ=Nowhere:::
export PYTHONPATH=$'/caf\xe9:/\xff' X=$'\xff\xfe'
ulimit -n 64 -u 64
exec env LC_ALL=xx_YY.latin9 srun sh -c 'echo ran'
