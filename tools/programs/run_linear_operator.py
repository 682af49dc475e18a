"""linear_operator: structured matrices, their products, solutions, determinants and gradients."""

import linear_operator
from common import say, torch, wave
from linear_operator import operators

half = wave(4, 4, dtype=torch.float64)
full = (half @ half.mT + torch.eye(4, dtype=torch.float64)).requires_grad_()
side = wave(4, 2, dtype=torch.float64, phase=1.0)
made = {
    "dense": operators.DenseLinearOperator(full),
    "diag": operators.DiagLinearOperator(full.diagonal()),
    "added": operators.DenseLinearOperator(full).add_jitter(0.1),
    "low_rank": operators.LowRankRootLinearOperator(half[:, :2]).add_diagonal(full.diagonal()),
    "kronecker": operators.KroneckerProductLinearOperator(full[:2, :2].clone(), full[2:, 2:].clone()),
    "toeplitz": operators.ToeplitzLinearOperator(torch.tensor([4.0, 1.0, 0.5, 0.2], dtype=torch.float64)),
    "block": operators.BlockDiagLinearOperator(
        operators.DenseLinearOperator(full[:2, :2].clone().expand(2, 2, 2))
    ),
    "sum": operators.DenseLinearOperator(full) + operators.DiagLinearOperator(full.diagonal()),
    "scaled": operators.DenseLinearOperator(full) * 2.5,
}
for name, operator in made.items():
    say(
        name,
        [operator.to_dense(), operator @ side, operator.solve(side), operator.logdet(), operator.diagonal()],
    )
    say(f"{name}.root", operator.cholesky().to_dense())
    quadratic, determinant = operator.inv_quad_logdet(side, logdet=True)
    say(f"{name}.quadratic", [quadratic, determinant])
    if (quadratic + determinant).requires_grad:
        say(f"{name}.gradient", torch.autograd.grad(quadratic.sum() + determinant, full, retain_graph=True))
say("dense_solve", linear_operator.solve(made["dense"], side))
