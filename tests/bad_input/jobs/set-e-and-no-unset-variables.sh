#!/bin/bash
set -euo pipefail
trap 'echo trapped' ERR
true | cat
echo ran
