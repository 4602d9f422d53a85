"""What a broker says about itself at a scrape."""
