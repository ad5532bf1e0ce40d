"""Stored runs, and what they say beside the papers' printed numbers."""

from fedlib.results.store import Store, Stored

__all__ = ["Store", "Stored"]
