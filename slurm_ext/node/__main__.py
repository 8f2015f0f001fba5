"""`python3 -I -S <package>/node/__main__.py HOOK NODE_JSON`: one hook; whatever happens, exit 0."""

import os
import sys

# EL8's python3 is 3.6, which can read this file and none of the others.
if sys.version_info < (3, 9):  # noqa: UP036 - the launcher tells of status 3
    sys.exit(3)

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from slurm_ext.node.hooks.entry import main

main(sys.argv[1:])
