"""Control variates: columns of posterior mean zero, regressed out of functions of the draws."""
