"""Adaptive Federated Optimization."""
