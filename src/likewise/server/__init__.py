"""The server: HTTP -> one library call -> JSON, and the built front end."""
