"""Private steps that several mechanisms share. Each step states its own privacy cost."""
