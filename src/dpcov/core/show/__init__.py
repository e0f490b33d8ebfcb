"""Tables, pictures and documents that show the results of an analysis."""
