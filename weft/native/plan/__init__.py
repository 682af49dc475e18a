"""Planning: rewriting definitions, fusing them into kernels, order, work and memory."""
