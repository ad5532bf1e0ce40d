"""Delta-SGD."""
