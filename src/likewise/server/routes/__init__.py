"""Routes: one file for each room of the studio; each turns a request into one library call."""
