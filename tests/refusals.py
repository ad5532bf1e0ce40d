"""How tests say that a mistake is refused."""

import pytest

import fedlib


def refused(message, call, *given, **named):
    """A call is refused in a line that matches the message."""
    with pytest.raises(fedlib.Error, match=message):
        call(*given, **named)
