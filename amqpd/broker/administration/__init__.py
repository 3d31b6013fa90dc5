"""What administrators change while the broker runs: accounts, policies, limits."""
