"""Schemas, data sources, encoded rows and exact second moments."""
