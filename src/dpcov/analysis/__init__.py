"""Functions of a release; no privacy cost."""
