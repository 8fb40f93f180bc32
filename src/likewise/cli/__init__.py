"""The command line: one file per group of commands; a command makes one library call and shows its result."""
