"""Process-wide settings, at most fifteen; each with what it does and its default."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings:
    """The settings as they stand; assign to change them."""

    strict: bool = False
    """Turn every silent fallback (a looped batch rule, later a graph break) into an error."""


settings = Settings()
