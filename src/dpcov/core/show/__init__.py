"""Presentation of results as text, HTML, JSON, CSV and data frames."""
