"""The command line: arguments -> one library call -> print; a file for each package of the library."""
