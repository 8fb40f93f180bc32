"""The reports room: results -> pages, tables, folders."""
