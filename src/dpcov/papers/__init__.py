"""Mechanisms of the literature, for comparison: the product takes none of them by itself.

Nothing outside imports this room; `dpcov.core.registry` knows its names, and asking for a mechanism
or a noise law by name loads it.
"""
