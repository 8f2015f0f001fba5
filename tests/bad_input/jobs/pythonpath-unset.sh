#!/bin/bash
set -eu
unset PYTHONPATH
python3 -c "print('ran')"
