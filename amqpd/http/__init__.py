"""What is told over HTTP."""
