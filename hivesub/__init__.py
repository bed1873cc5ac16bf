"""hivesub: a daemon that runs named, nested, headless claude sessions for one MCP client.

Importing the package imports nothing else: `hivesub.standin` counts on a fast start, and `hivesub.tap` on nobody having
installed a reactor before it.
"""

__version__ = "0.1.0"
