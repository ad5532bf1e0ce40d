"""Drawings of the theory notebooks."""
