"""Mechanisms from the literature, for comparisons. dpcov never chooses them automatically.

No module outside this package imports it. `dpcov.core.registry` loads a mechanism or a noise
distribution of this package by name.
"""
