#!/bin/bash
echo ran
exec >&- 2>&- <&-
sleep 0.1
