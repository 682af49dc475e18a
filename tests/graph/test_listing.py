"""FX's list of nodes, which `print(graph)` gives under PyTorch's name."""

from __future__ import annotations

import weft
from weft.core.naming import naming
from weft.fx import symbolic_trace


class Net(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = weft.nn.Linear(2, 2)
        self.shift = weft.nn.Parameter(weft.ones(2))

    def forward(self, x, y=1):
        return weft.relu(self.layer(x) + self.shift).sum(dim=[0, 1]) * y, {"a": x}


def test_nodes_one_a_line(monkeypatch):
    graph = symbolic_trace(Net()).graph
    assert str(graph).startswith("graph forward(")
    monkeypatch.setattr(naming, "namespace", "torch")
    assert (
        str(graph)
        == """\
graph():
    %x : [num_users=2] = placeholder[target=x]
    %y : [num_users=1] = placeholder[target=y](default=1)
    %layer : [num_users=1] = call_module[target=layer](args = (%x,), kwargs = {})
    %shift : [num_users=1] = get_attr[target=shift]
    %add : [num_users=1] = call_function[target=operator.add](args = (%layer, %shift), kwargs = {})
    %relu : [num_users=1] = call_function[target=torch.relu](args = (%add,), kwargs = {})
    %sum_1 : [num_users=1] = call_method[target=sum](args = (%relu,), kwargs = {dim: [0, 1]})
    %mul : [num_users=1] = call_function[target=operator.mul](args = (%sum_1, %y), kwargs = {})
    return (mul, {'a': x})"""
    )
