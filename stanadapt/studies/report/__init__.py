"""Reports on fits as HTML pages."""
