"""Who somebody is and what they may do: users, passwords, permissions, SASL."""
