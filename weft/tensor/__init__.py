"""Tensors over arrays: storage, views, versions, indexing, printing, interchange, and the faces of the op records."""
