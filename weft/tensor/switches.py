"""Switches that PyTorch programs set and ask for: determinism, precision of products, warnings.

Takes flags and names, keeps them and tells them. One idea: what a switch asks for holds here anyway (every op
is deterministic, products are done in their own precision), so setting one changes nothing but the answer.
"""

from __future__ import annotations

from typing import Final

from weft.tensor.base import public

PRECISIONS: Final = ("highest", "high", "medium")
DEBUG_MODES: Final = {"default": 0, "warn": 1, "error": 2}


class _Switches:
    deterministic: bool = False
    warn_only: bool = False
    precision: str = "highest"
    warn_always: bool = False


_switches: Final = _Switches()


@public
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for algorithms that give the same bits each time: all of Weft's do."""
    for place, given in (("'mode' (position 1)", mode), ("'warn_only'", warn_only)):
        if type(given) is not bool:
            name = f"_set_deterministic_algorithms(): argument {place}"
            raise TypeError(f"{name} must be bool, not {type(given).__name__}")
    _switches.deterministic, _switches.warn_only = mode, warn_only


@public
def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was last told."""
    return _switches.deterministic


@public
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether ops that are not deterministic were to warn only."""
    return _switches.warn_only


@public
def set_deterministic_debug_mode(debug_mode: object) -> None:
    """`use_deterministic_algorithms` by number or name: 0 "default", 1 "warn", 2 "error"."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in DEBUG_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = DEBUG_MODES[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


@public
def get_deterministic_debug_mode() -> int:
    """0 default, 1 warn, 2 error."""
    return 0 if not _switches.deterministic else 1 if _switches.warn_only else 2


@public
def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 must be; they are done in float32 whatever this says."""
    if precision not in PRECISIONS:
        raise RuntimeError(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current choice is "
            f"'{_switches.precision}'"
        )
    _switches.precision = precision


@public
def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was last told."""
    return _switches.precision


@public
def set_warn_always(b: bool, /) -> None:
    """Whether warnings that come once are to come always."""
    _switches.warn_always = bool(b)


@public
def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was last told."""
    return _switches.warn_always


@public
def set_flush_denormal(mode: bool) -> bool:
    """Whether tiny numbers may become 0: they do not, and this says that it changed nothing."""
    return False


@public
def compiled_with_cxx11_abi() -> bool:
    """There is no C++ here that an extension could be linked with."""
    return True
