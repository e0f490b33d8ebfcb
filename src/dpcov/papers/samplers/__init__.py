"""Noise laws and samplers that only the papers' mechanisms need."""
