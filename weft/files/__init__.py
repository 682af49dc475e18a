"""Files: what `weft.save` writes, `weft.load` reads, and safetensors; see the modules."""
