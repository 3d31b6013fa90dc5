"""What becomes of messages by their queue's rules: limits, dead letters."""
