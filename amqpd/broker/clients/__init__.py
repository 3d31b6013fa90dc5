"""Who is connected: connections, their counts, limits, and the check of secrets."""
