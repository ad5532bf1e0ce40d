"""Mime."""
