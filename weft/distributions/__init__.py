"""Probability distributions: parameters in, samples and log-probabilities out.

Takes tensors or numbers as parameters, which broadcast; gives objects that `sample`, `rsample` (with
gradients, where the distribution allows it), `log_prob`, `entropy`, `mean`, `variance`, `cdf` and `icdf`.
`kl_divergence(p, q)` compares two of them; `constraints` say what values must be, `transforms` change them,
and `biject_to` and `transform_to` find a transform for a constraint. One idea: a distribution is its
parameters, all of one shape; the last `len(event_shape)` dimensions belong to one draw, those before are
independent draws.
"""

from weft.distributions import constraints as constraints
from weft.distributions import transforms as transforms
from weft.distributions.constraint_registry import biject_to as biject_to
from weft.distributions.constraint_registry import transform_to as transform_to
from weft.distributions.continuous import Cauchy as Cauchy
from weft.distributions.continuous import Exponential as Exponential
from weft.distributions.continuous import GeneralizedPareto as GeneralizedPareto
from weft.distributions.continuous import Gumbel as Gumbel
from weft.distributions.continuous import Laplace as Laplace
from weft.distributions.continuous import Normal as Normal
from weft.distributions.continuous import StudentT as StudentT
from weft.distributions.continuous import Uniform as Uniform
from weft.distributions.continuous import VonMises as VonMises
from weft.distributions.discrete import Bernoulli as Bernoulli
from weft.distributions.discrete import Binomial as Binomial
from weft.distributions.discrete import Categorical as Categorical
from weft.distributions.discrete import ContinuousBernoulli as ContinuousBernoulli
from weft.distributions.discrete import Geometric as Geometric
from weft.distributions.discrete import Multinomial as Multinomial
from weft.distributions.discrete import NegativeBinomial as NegativeBinomial
from weft.distributions.discrete import OneHotCategorical as OneHotCategorical
from weft.distributions.discrete import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from weft.distributions.discrete import Poisson as Poisson
from weft.distributions.distribution import Distribution as Distribution
from weft.distributions.distribution import ExponentialFamily as ExponentialFamily
from weft.distributions.gamma import Beta as Beta
from weft.distributions.gamma import Chi2 as Chi2
from weft.distributions.gamma import Dirichlet as Dirichlet
from weft.distributions.gamma import FisherSnedecor as FisherSnedecor
from weft.distributions.gamma import Gamma as Gamma
from weft.distributions.kl import kl_divergence as kl_divergence
from weft.distributions.kl import register_kl as register_kl
from weft.distributions.multivariate import Independent as Independent
from weft.distributions.multivariate import LKJCholesky as LKJCholesky
from weft.distributions.multivariate import LowRankMultivariateNormal as LowRankMultivariateNormal
from weft.distributions.multivariate import MixtureSameFamily as MixtureSameFamily
from weft.distributions.multivariate import MultivariateNormal as MultivariateNormal
from weft.distributions.multivariate import Wishart as Wishart
from weft.distributions.transformed import HalfCauchy as HalfCauchy
from weft.distributions.transformed import HalfNormal as HalfNormal
from weft.distributions.transformed import InverseGamma as InverseGamma
from weft.distributions.transformed import Kumaraswamy as Kumaraswamy
from weft.distributions.transformed import LogisticNormal as LogisticNormal
from weft.distributions.transformed import LogNormal as LogNormal
from weft.distributions.transformed import Pareto as Pareto
from weft.distributions.transformed import RelaxedBernoulli as RelaxedBernoulli
from weft.distributions.transformed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from weft.distributions.transformed import TransformedDistribution as TransformedDistribution
from weft.distributions.transformed import Weibull as Weibull
from weft.distributions.transforms import *  # noqa: F403
