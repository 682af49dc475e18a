"""The array API standard over Weft tensors."""
