"""What every result has in common: tables, figures and a document, and the ways to show them."""
