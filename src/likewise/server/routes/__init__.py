"""Routes: one file per view with its requests, responses and library calls."""
