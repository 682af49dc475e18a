"""Seeds and states of the default generator, as `weft.random.*`."""

from weft.core.generator import default_generator as default_generator
from weft.core.generator import fork_rng as fork_rng
from weft.core.generator import initial_seed as initial_seed
from weft.core.generator import manual_seed as manual_seed
from weft.core.generator import seed as seed
from weft.tensor.random_state import get_rng_state as get_rng_state
from weft.tensor.random_state import set_rng_state as set_rng_state
