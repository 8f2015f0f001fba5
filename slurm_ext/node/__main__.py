"""`python3 -I -S <package>/node/__main__.py HOOK NODE_JSON`: one hook; whatever happens, exit 0."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from slurm_ext.node.hooks.entry import main

main(sys.argv[1:])
