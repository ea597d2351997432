"""Stan programs: source, data, toolchain, and the backends that evaluate them."""
