"""Noisy answers that mechanisms publish, their privacy costs, and the record of a release."""
