"""`python -m hivesub.standin`: run the stand-in."""

from __future__ import annotations

import sys

from hivesub.standin.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
