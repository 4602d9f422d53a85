"""What an operator measures: the table of families, the text that is scraped, the port that serves it."""
