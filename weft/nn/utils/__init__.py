"""Helpers around modules and parameters: clipping gradients, parameters as one vector, modules without
initial values."""

from weft.nn.utils.clip_grad import clip_grad_norm as clip_grad_norm
from weft.nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from weft.nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from weft.nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from weft.nn.utils.clip_grad import get_total_norm as get_total_norm
from weft.nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector
from weft.nn.utils.convert_parameters import vector_to_parameters as vector_to_parameters
from weft.nn.utils.init import skip_init as skip_init
