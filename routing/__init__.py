"""Exchange types and binding tables: names in, opaque destinations out."""
