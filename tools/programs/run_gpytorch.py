"""gpytorch: an exact Gaussian process, trained and asked; a variational one; kernels."""

import gpytorch
from common import fill, say, torch, train, wave

x = torch.linspace(0, 1, 20)
y = (x * 6.0).sin() + wave(20) * 0.1


class Exact(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, value):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(value), self.covar_module(value))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Exact(likelihood)
score = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
train(model, lambda: -score(model(x), y), optimizer=torch.optim.Adam(model.parameters(), lr=0.1))
model.eval(), likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    told = likelihood(model(torch.linspace(0, 1.2, 9)))
    say("prediction", [told.mean, told.variance, *told.confidence_region()])


class Approximate(gpytorch.models.ApproximateGP):
    def __init__(self):
        points = torch.linspace(0, 1, 5)
        spread = gpytorch.variational.CholeskyVariationalDistribution(5)
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, spread))
        self.mean_module = gpytorch.means.LinearMean(1)
        self.covar_module = gpytorch.kernels.MaternKernel(nu=1.5)

    def forward(self, value):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(value), self.covar_module(value))


model, likelihood = Approximate(), gpytorch.likelihoods.BernoulliLikelihood()
fill(model.mean_module)
model.variational_strategy.variational_params_initialized.fill_(1)
score = gpytorch.mlls.VariationalELBO(likelihood, model, 20)
train(model, lambda: -score(model(x), (y > 0).float()))
for kernel in (gpytorch.kernels.PeriodicKernel(), gpytorch.kernels.RQKernel(),
gpytorch.kernels.CosineKernel(),
               gpytorch.kernels.PolynomialKernel(2), gpytorch.kernels.LinearKernel()):  # fmt: skip
    say(type(kernel).__name__, kernel(x[:4].unsqueeze(-1), x[4:7].unsqueeze(-1)).to_dense())
