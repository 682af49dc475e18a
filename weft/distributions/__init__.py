"""Probability distributions: parameters in, samples and log-probabilities out.

Takes tensors or numbers as parameters, which broadcast; gives objects that `sample`, `rsample` (with
gradients, where the distribution allows it), `log_prob`, `entropy`, `mean`, `variance`, `cdf` and `icdf`.
`kl_divergence(p, q)` compares two of them. One idea: a distribution is its parameters, all of one shape; the
last `len(event_shape)` dimensions belong to one draw, those before are independent draws.
"""

from weft.distributions.continuous import Cauchy as Cauchy
from weft.distributions.continuous import Exponential as Exponential
from weft.distributions.continuous import Gumbel as Gumbel
from weft.distributions.continuous import HalfNormal as HalfNormal
from weft.distributions.continuous import Laplace as Laplace
from weft.distributions.continuous import LogNormal as LogNormal
from weft.distributions.continuous import Normal as Normal
from weft.distributions.continuous import Uniform as Uniform
from weft.distributions.discrete import Bernoulli as Bernoulli
from weft.distributions.discrete import Categorical as Categorical
from weft.distributions.discrete import Geometric as Geometric
from weft.distributions.discrete import OneHotCategorical as OneHotCategorical
from weft.distributions.distribution import Distribution as Distribution
from weft.distributions.kl import kl_divergence as kl_divergence
from weft.distributions.kl import register_kl as register_kl
from weft.distributions.multivariate import Independent as Independent
from weft.distributions.multivariate import MultivariateNormal as MultivariateNormal
