"""Messages that wait for their time: delayed exchanges, retries put off."""
