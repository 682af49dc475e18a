"""Optimizers: SGD, Adam, AdamW, RMSprop over groups of parameters, and schedules of their learning rates."""

from weft.optim import lr_scheduler as lr_scheduler
from weft.optim.adam import Adam as Adam
from weft.optim.adamw import AdamW as AdamW
from weft.optim.optimizer import Optimizer as Optimizer
from weft.optim.rmsprop import RMSprop as RMSprop
from weft.optim.sgd import SGD as SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
