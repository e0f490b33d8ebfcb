"""How results look: a table, a picture and a document, drawn once for all who show them."""
