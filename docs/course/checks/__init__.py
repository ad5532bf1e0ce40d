"""The checks of the assignments, a module a session; each is compared with fedlib itself."""
