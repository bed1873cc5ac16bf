"""The tools that MCP clients see: schemas, checks of arguments, texts. What they mean is `hivesub.runs`' part."""
