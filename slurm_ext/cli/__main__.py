"""`python -m slurm_ext.cli` is `dlqueue`, for where no PATH can be relied on."""

import sys

from slurm_ext.cli import main

sys.exit(main())
