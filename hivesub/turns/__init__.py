"""One claude process, from spawn to exit: what it is started with, what it says, how it ends. Knows nothing of names,
runs or goals.
"""
