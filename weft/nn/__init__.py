"""Neural network pieces: functional forms and Parameter."""

from weft.tensor.base import Parameter as Parameter
