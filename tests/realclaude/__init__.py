"""Support for running the real claude CLI: a scripted model, a network namespace, a pinned installation.

Nothing here is a test. `steps` and `model` stand in for the Messages API, `netns` shuts a whole test run
into a network namespace with loopback only, `install` brings the pinned binary, `sandbox` names the
environment that it runs in.
"""
