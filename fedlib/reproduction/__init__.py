"""The reproduction: the only room that knows the papers' experiments and the notebooks."""
