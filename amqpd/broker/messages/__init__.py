"""What a message is to the broker: its parts, and the headers that steer it."""
