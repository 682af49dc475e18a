"""Neural network pieces: modules, parameters, functional forms, initial values, helpers."""

from weft.nn import functional as functional
from weft.nn import init as init
from weft.nn import parallel as parallel
from weft.nn import parameter as parameter
from weft.nn import utils as utils
from weft.nn.modules import *  # noqa: F403
from weft.nn.parameter import Buffer as Buffer
from weft.nn.parameter import Parameter as Parameter
from weft.nn.parameter import UninitializedBuffer as UninitializedBuffer
from weft.nn.parameter import UninitializedParameter as UninitializedParameter
