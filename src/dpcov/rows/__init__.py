"""What a row is: its schema, its cells, its image and exact sums of images."""
