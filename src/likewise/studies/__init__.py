"""The studies room: an encoder and several rooms -> one combined result."""
