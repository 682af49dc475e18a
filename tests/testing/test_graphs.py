from __future__ import annotations

from weft.testing import normalize_gm


def test_comments_and_blanks_go():
    text = (
        "class GraphModule(weft.nn.Module):\n"
        "    def forward(self, x):\n"
        "         # File: /home/me/model.py:3 in forward, code: return x + 1\n"
        '        add: "f32[3]" = x + 1;  x = None   \n'
        "\n\n\n\n"
        '        text = "# not a comment"\n'
        "        return (add,)\n"
    )
    assert normalize_gm(text) == (
        "class GraphModule(weft.nn.Module):\n"
        "    def forward(self, x):\n"
        '        add: "f32[3]" = x + 1;  x = None\n'
        "\n"
        '        text = "# not a comment"\n'
        "        return (add,)\n"
    )
