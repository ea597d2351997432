"""Posterior expectations with control variates, from draws and gradients of any sampler."""
