#!/bin/bash
set -e
python3 -S -E -c "print('ran')"
