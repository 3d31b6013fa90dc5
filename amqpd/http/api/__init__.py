"""What the management API answers: one file a resource."""
