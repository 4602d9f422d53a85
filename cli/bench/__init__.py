"""`zenit bench`."""
