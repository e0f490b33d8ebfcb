"""What everything rests on: budgets, randomness, errors, files, words."""
