"""Commands about messages: sending, reading, finding them; deciding transactions."""
