"""Function transforms: grad, vjp, jvp, Jacobians, Hessians, vmap; modules as functions."""

import weft.func.functions as _functions  # noqa: F401
from weft.autograd.mapping import vmap as vmap
from weft.func.forward import hessian as hessian
from weft.func.forward import jacfwd as jacfwd
from weft.func.forward import jvp as jvp
from weft.func.forward import linearize as linearize
from weft.func.modules import functional_call as functional_call
from weft.func.modules import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from weft.func.modules import stack_module_state as stack_module_state
from weft.func.reverse import grad as grad
from weft.func.reverse import grad_and_value as grad_and_value
from weft.func.reverse import jacrev as jacrev
from weft.func.reverse import vjp as vjp
