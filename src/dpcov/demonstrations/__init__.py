"""Mechanisms of the literature that fail, shown failing; none can be used for a release."""
