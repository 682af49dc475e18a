"""Tensors over arrays: storage, views, versions, indexing, printing, interchange, faces of the op records."""
