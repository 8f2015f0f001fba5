#!/bin/bash
echo ran
exec python3 -c '
import os, time
os.closerange(0, 4096)
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
time.sleep(300)'
