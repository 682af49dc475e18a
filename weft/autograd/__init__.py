"""Autograd for tensors: the engine, grad modes, hooks, gradient checks."""

from weft.autograd import anomaly as anomaly
from weft.autograd import forward_ad as forward_ad
from weft.autograd import function as function
from weft.autograd import functional as functional
from weft.autograd import graph as graph
from weft.autograd import properties as properties
from weft.autograd.anomaly import detect_anomaly as detect_anomaly
from weft.autograd.anomaly import set_detect_anomaly as set_detect_anomaly
from weft.autograd.engine import backward as backward
from weft.autograd.engine import grad as grad
from weft.autograd.function import Function as Function
from weft.autograd.grad_mode import _force_original_view_tracking as _force_original_view_tracking
from weft.autograd.grad_mode import enable_grad as enable_grad
from weft.autograd.grad_mode import inference_mode as inference_mode
from weft.autograd.grad_mode import is_multithreading_enabled as is_multithreading_enabled
from weft.autograd.grad_mode import no_grad as no_grad
from weft.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from weft.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
from weft.autograd.gradcheck import GradcheckError as GradcheckError
from weft.autograd.gradcheck import gradcheck as gradcheck
from weft.autograd.gradcheck import gradgradcheck as gradgradcheck
from weft.autograd.graph import _unsafe_preserve_version_counter as _unsafe_preserve_version_counter


def kineto_available() -> bool:
    """Whether Kineto collects the profiler's events: Weft's own collector does."""
    return False
