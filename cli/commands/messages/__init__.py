"""Commands about messages: sending, reading, finding, deciding them."""
