"""The operator's page: all subagents and each of them, live, read-only. `resource` answers, `elements` says what is
shown, `draw` draws; the markup, style and script are files of this package.
"""
