"""Optimizers of the clients, optimizers of the server, and client learning-rate schedules."""
