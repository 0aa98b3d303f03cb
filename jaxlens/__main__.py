"""`python -m jaxlens` is the `jaxlens` command."""

import sys

from jaxlens.cli import main

sys.exit(main())
