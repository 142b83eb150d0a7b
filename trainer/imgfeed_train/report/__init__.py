"""The log book of a run: read from its log, told in a page with plots, and set beside another's."""
