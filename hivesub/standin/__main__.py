"""`python -m hivesub.standin`: run the stand-in."""

from __future__ import annotations

import sys

from hivesub.standin.main import leave

if __name__ == "__main__":
    leave(sys.argv[1:])
