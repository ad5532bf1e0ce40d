"""What Mime claims, as statements about runs."""

from __future__ import annotations

from fedlib.reproduction.evidence import Evidence

EVIDENCE: tuple[Evidence, ...] = ()
