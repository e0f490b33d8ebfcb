"""Budgets, random numbers, errors, files and texts that all other packages use."""
