"""Noise distributions and samplers that only the mechanisms from the literature need."""
