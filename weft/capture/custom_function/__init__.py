"""Custom autograd Functions in captured code: their calls, contexts, backwards and transforms."""
