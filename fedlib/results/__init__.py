"""Stored runs, and their comparison with the papers' numbers."""

from fedlib.results.store import Store, Stored

__all__ = ["Store", "Stored"]
