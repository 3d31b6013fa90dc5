"""What a server says when: state machines of connections and channels, no I/O."""
