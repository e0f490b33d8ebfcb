"""Private steps that several mechanisms share; each states its own (epsilon, delta)."""
