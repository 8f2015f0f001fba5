#!/bin/bash
# ÿþ€Ã( naïve café
x=$'\xff\xfe'
printf '%s' "$x" >/dev/null
echo ran
