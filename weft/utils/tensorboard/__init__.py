"""What TensorBoard shows, written as event files of our own: `SummaryWriter`. Nothing else has to be
installed to write them."""

from weft.utils.tensorboard.writer import SummaryWriter as SummaryWriter

__all__ = ["SummaryWriter"]
