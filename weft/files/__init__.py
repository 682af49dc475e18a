"""Files: what `weft.save` writes and `weft.load` reads, and safetensors files both ways.

>>> import io, weft
>>> from weft.files import safetensors
>>> safetensors.load(safetensors.save({"x": weft.ones(2)}))
{'x': tensor([1., 1.])}
"""

from weft.files.checkpoint import load as load
from weft.files.checkpoint import save as save
from weft.files.errors import FileFormatError as FileFormatError
from weft.files.errors import UnsafeFileError as UnsafeFileError
from weft.files.safetensors import load_file as load_file
from weft.files.safetensors import safe_open as safe_open
from weft.files.safetensors import save_file as save_file
