"""Records traces of producers and consumers with `trace=True`, and reads them."""
