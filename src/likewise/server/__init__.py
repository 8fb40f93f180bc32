"""The server: HTTP -> one library call -> JSON."""
