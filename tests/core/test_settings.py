from __future__ import annotations

from weft.core.settings import Settings


def test_watchers_are_told_after_the_change():
    settings = Settings()
    seen = []
    watcher = lambda name: seen.append((name, getattr(settings, name)))
    Settings.watchers.append(watcher)
    try:
        settings.strict = True
        settings.recompile_limit = 3
    finally:
        Settings.watchers.remove(watcher)
    settings.strict = False
    assert seen == [("strict", True), ("recompile_limit", 3)]


def test_defaults():
    assert Settings() == Settings(strict=False, verify=False, recompile_limit=8)
