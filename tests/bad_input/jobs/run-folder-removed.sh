#!/bin/bash
set -e
rm -rf "$DLQUEUE_RUN_DIR"
python3 -c "print('ran')"
