"""The small numbers of the theory notebooks."""
