"""The web server: HTTP request -> one library call -> JSON."""
