"""The modules of `weft.nn`: containers, and the layers by family. `weft.nn` exports every class named
here."""

from typing import TYPE_CHECKING

from weft.nn.modules.activation import *  # noqa: F403
from weft.nn.modules.adaptive import *  # noqa: F403
from weft.nn.modules.batchnorm import *  # noqa: F403
from weft.nn.modules.channelshuffle import *  # noqa: F403
from weft.nn.modules.container import *  # noqa: F403
from weft.nn.modules.conv import *  # noqa: F403
from weft.nn.modules.descriptions import describe as _describe
from weft.nn.modules.distance import *  # noqa: F403
from weft.nn.modules.dropout import *  # noqa: F403
from weft.nn.modules.flatten import *  # noqa: F403
from weft.nn.modules.fold import *  # noqa: F403
from weft.nn.modules.instancenorm import *  # noqa: F403
from weft.nn.modules.linear import *  # noqa: F403
from weft.nn.modules.loss import *  # noqa: F403
from weft.nn.modules.module import Module as Module
from weft.nn.modules.normalization import *  # noqa: F403
from weft.nn.modules.padding import *  # noqa: F403
from weft.nn.modules.parallel import *  # noqa: F403
from weft.nn.modules.pixelshuffle import *  # noqa: F403
from weft.nn.modules.pooling import *  # noqa: F403
from weft.nn.modules.rnn import *  # noqa: F403
from weft.nn.modules.sparse import *  # noqa: F403
from weft.nn.modules.transformer import *  # noqa: F403
from weft.nn.modules.upsampling import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers follow the imports above; at run time submodules stay out of `weft.nn`
    __all__ = [_name for _name, _value in globals().items() if isinstance(_value, type)]
    _describe([globals()[_name] for _name in __all__])
