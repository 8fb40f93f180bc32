"""The command line: arguments -> one library call -> print; a file per command."""
