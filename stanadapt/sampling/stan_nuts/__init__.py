"""Stan's own NUTS on the same targets, and the check of our density against CmdStan's."""
