"""What mechanisms publish: answers with noise, their costs, and the record of a release."""
