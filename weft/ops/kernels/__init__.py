"""Array kernels of the structured ops: convolution, pooling, resizing, folding, padding."""
