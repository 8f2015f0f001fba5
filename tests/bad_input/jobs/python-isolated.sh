#!/bin/bash
set -e
python3 -I -c "import sys; assert sys.flags.isolated; print('ran')"
