#!/bin/bash
set -e
export PYTHONPATH=/nonexistent:.
python3 -c "print('ran')"
