"""pyro: variational inference, traces, conditioning, enumeration, and the potential that NUTS follows."""

import pyro
import pyro.distributions as dist
from common import say, torch, wave
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, TraceMeanField_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.infer.mcmc.util import initialize_model

data = wave(10) + 0.5


def model(values):
    loc = pyro.sample("loc", dist.Normal(0.0, 10.0))
    scale = pyro.sample("scale", dist.Gamma(2.0, 1.0))
    with pyro.plate("data", len(values)):
        pyro.sample("obs", dist.Normal(loc, scale), obs=values)


guide = AutoDelta(model, init_loc_fn=lambda site: torch.ones(()) * 0.7)
svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
say("losses", [torch.tensor(svi.step(data)) for _ in range(5)])
say("found", [value for _, value in sorted(guide.median(data).items())])
trace = pyro.poutine.trace(
    pyro.condition(model, {"loc": torch.tensor(0.3), "scale": torch.tensor(0.8)})
).get_trace(data)
say("log_prob", trace.log_prob_sum())


@pyro.infer.config_enumerate
def mixture(values):
    weights = pyro.param("weights", torch.tensor([0.3, 0.7]), constraint=dist.constraints.simplex)
    centres = pyro.param("centres", torch.tensor([-1.0, 1.5]))
    with pyro.plate("data", len(values)):
        chosen = pyro.sample("chosen", dist.Categorical(weights))
        pyro.sample("obs", dist.Normal(centres[chosen], 1.0), obs=values)


loss = TraceEnum_ELBO(max_plate_nesting=1).differentiable_loss(mixture, lambda values: None, data)
say("mixture", loss)
inner = [pyro.param(name).unconstrained() for name in ("weights", "centres")]
say("gradients", torch.autograd.grad(loss, inner))


def normal_guide(values):
    where = pyro.param("where", torch.tensor(0.1))
    pyro.sample("loc", dist.Normal(where, 0.2))


def known_scale(values):
    loc = pyro.sample("loc", dist.Normal(0.0, 10.0))
    pyro.sample("obs", dist.Normal(loc, 1.0).expand([10]).to_event(1), obs=values)


say("divergence", dist.kl.kl_divergence(dist.Normal(0.1, 0.2), dist.Normal(0.0, 10.0)))
_, potential, transforms, _ = initialize_model(model, (data,), initial_params={
    "loc": torch.tensor(0.3), "scale": torch.tensor(0.8)})  # fmt: skip
say("potential", potential({"loc": torch.tensor(0.3), "scale": torch.tensor(-0.2)}))
pyro.set_rng_seed(0)
kernel = pyro.infer.NUTS(model, jit_compile=False)
chain = pyro.infer.MCMC(kernel, num_samples=60, warmup_steps=60, disable_progbar=True)
chain.run(data)
mean = chain.get_samples()["loc"].mean()
say("nuts_near", (mean - data.mean()).abs() < 0.5)
TraceMeanField_ELBO()
