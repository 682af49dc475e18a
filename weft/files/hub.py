"""Models by name, as `torch.hub` has them: from a folder, and files from an address.

Takes a folder with a `hubconf.py`, or the address of a file; gives what its functions make, or the tensors in
the file. One idea: nothing that comes from a network is run. A repository is given as a folder
(`source="local"`); of addresses only files of tensors are fetched, which are read as data, and kept in a
folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlparse
from urllib.request import urlopen

from weft.files.checkpoint import load as load_file

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH: Final = re.compile(r"-([a-f0-9]*)\.")
_chosen: Final[dict[str, str]] = {}


def get_dir() -> str:
    """The folder in which files are kept: that of `set_dir`, else `$TORCH_HOME/hub`."""
    if "dir" in _chosen:
        return _chosen["dir"]
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    home = os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))
    return os.path.join(home, "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keeps files in this folder from here on."""
    _chosen["dir"] = os.path.expanduser(d)


def _described(repo: str, source: str) -> ModuleType:
    """The module `hubconf.py` of a folder."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise RuntimeError(
            f"hub: {repo!r} is a repository on a network, and what it holds would be run. Fetch it yourself, "
            'look at it, and give its folder with source="local".'
        )
    path = Path(repo) / "hubconf.py"
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"hub: there is no {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, repo)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(repo)
    for name in getattr(module, "dependencies", ()):
        if importlib.util.find_spec(name) is None:
            raise RuntimeError(f"Missing dependencies: {name}")
    return module


def _entry(module: ModuleType, name: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def list(github: str, *_ignored: Any, source: str = "local", **_options: Any) -> Any:
    """The names of the functions that a folder's `hubconf.py` offers."""
    module = _described(github, source)
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(github: str, model: str, *_ignored: Any, source: str = "local", **_options: Any) -> str | None:
    """What a function of a folder's `hubconf.py` says of itself."""
    doc: str | None = _entry(_described(github, source), model).__doc__
    return doc


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What a function of a folder's `hubconf.py` makes."""
    return _entry(_described(repo_or_dir, source.lower()), model)(*args, **kwargs)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetches a file; where the start of its SHA-256 is given, it must be that."""
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(os.path.abspath(dst)), delete=False) as part:
        try:
            with _opened(url) as answer:
                while block := answer.read(1 << 20):
                    part.write(block)
                    digest.update(block)
            part.close()
            found = digest.hexdigest()
            if hash_prefix is not None and not found.startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            shutil.move(part.name, dst)
        finally:
            part.close()
            if os.path.exists(part.name):
                os.remove(part.name)


def _opened(url: str) -> Any:
    try:
        return urlopen(url)
    except OSError as error:
        raise OSError(f"hub: {url} cannot be fetched ({error}); put the file at its place by hand") from error


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """The tensors of a file at an address, which is fetched once and kept in `model_dir`."""
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    kept = os.path.join(folder, name)
    if not os.path.exists(kept):
        told = HASH.search(name) if check_hash else None
        download_url_to_file(url, kept, told.group(1) if told else None, progress)
    return load_file(kept, map_location=map_location)


load_url = load_state_dict_from_url
