"""What a subagent can reach beyond its tools: each way tried with the real claude, the table printed into the security
page.
"""
