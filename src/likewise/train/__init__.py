"""Training: from an encoder, tasks and settings to a better encoder and a report."""
