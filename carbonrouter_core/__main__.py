"""``python -m carbonrouter_core`` runs the command line (:mod:`.cli.main`)."""

import sys

from carbonrouter_core.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
