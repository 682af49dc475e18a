"""The _foreach_ forms that optimizers use."""
