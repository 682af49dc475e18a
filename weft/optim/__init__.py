"""Optimizers over groups of parameters, schedules of their learning rates, and averages of what they
train."""

from weft.optim import lr_scheduler as lr_scheduler
from weft.optim import swa_utils as swa_utils
from weft.optim.adadelta import Adadelta as Adadelta
from weft.optim.adafactor import Adafactor as Adafactor
from weft.optim.adagrad import Adagrad as Adagrad
from weft.optim.adam import Adam as Adam
from weft.optim.adamax import Adamax as Adamax
from weft.optim.adamw import AdamW as AdamW
from weft.optim.asgd import ASGD as ASGD
from weft.optim.lbfgs import LBFGS as LBFGS
from weft.optim.muon import Muon as Muon
from weft.optim.nadam import NAdam as NAdam
from weft.optim.optimizer import Optimizer as Optimizer
from weft.optim.radam import RAdam as RAdam
from weft.optim.rmsprop import RMSprop as RMSprop
from weft.optim.rprop import Rprop as Rprop
from weft.optim.sgd import SGD as SGD
from weft.optim.sparse_adam import SparseAdam as SparseAdam

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip
