"""Likewise inside other libraries: one module for each, imported only when it is asked for.

A module without its library raises MissingExtra, one line that names the extra.
"""
