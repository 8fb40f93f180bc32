"""The five studies that Likewise unites: every table and figure, run again, with a verdict for each claim."""
