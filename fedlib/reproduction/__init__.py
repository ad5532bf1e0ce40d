"""The reproduction: the only package that knows the papers' experiments and the notebooks."""
