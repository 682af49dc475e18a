"""Tools beside the tensor library, under the names PyTorch gives them."""

from weft.utils import checkpoint as checkpoint
