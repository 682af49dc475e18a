"""Helpers around modules and parameters: clipping gradients, parameters as one vector, modules without
initial values, weights computed from others, sequences of several lengths."""

from weft.nn.utils import parametrizations as parametrizations
from weft.nn.utils import parametrize as parametrize
from weft.nn.utils import prune as prune
from weft.nn.utils import rnn as rnn
from weft.nn.utils.clip_grad import *  # noqa: F403
from weft.nn.utils.convert_parameters import *  # noqa: F403
from weft.nn.utils.fusion import *  # noqa: F403
from weft.nn.utils.init import *  # noqa: F403
from weft.nn.utils.memory_format import *  # noqa: F403
from weft.nn.utils.spectral_norm import remove_spectral_norm as remove_spectral_norm
from weft.nn.utils.spectral_norm import spectral_norm as spectral_norm
from weft.nn.utils.weight_norm import remove_weight_norm as remove_weight_norm
from weft.nn.utils.weight_norm import weight_norm as weight_norm
