#!/bin/bash
set -e
export DLQUEUE_NUM_WORKERS=-1e300 DLQUEUE_RUN_DIR=/proc/1 DLQUEUE_DECISION="'; rm -rf /"
python3 -c "print('ran')"
