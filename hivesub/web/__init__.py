"""The faces toward HTTP: who may come in, which route leads where, and the MCP SDK's applications behind them."""
