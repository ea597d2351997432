"""A density that writes down where its gradient is asked for, to time it alone at those places.

A gradient takes longer where a chain has not just been, and hot chains go everywhere: timed at the
draws of the target's chain alone it looks cheaper than it was.
"""

import numpy as np
from numba import carray, cfunc

from stanadapt.density import GRADIENT_SIGNATURE, call_gradient, make_density

# numbers before the positions: gradient function, its handle, dim, positions written, room for
HEAD = 5
ADDRESS, HANDLE, DIM, WRITTEN, ROOM = range(HEAD)


@cfunc(GRADIENT_SIGNATURE)
def _gradient(block, propto, jacobian, position, out, gradient, message):
    head = carray(block, (HEAD,), np.int64)
    dim, written = head[DIM], head[WRITTEN]
    x = carray(position, (dim,))
    if written < head[ROOM]:
        carray(block, (HEAD + (written + 1) * dim,), np.float64)[HEAD + written * dim :] = x
        head[WRITTEN] = written + 1
    code, carray(out, (1,))[0] = call_gradient(
        head[ADDRESS], head[HANDLE], x, carray(gradient, (dim,))
    )
    return code


def recorded(density, room):
    """Return a density like this one, and the block it writes to: room for so many positions."""
    block = np.zeros(HEAD + room * density.dim)
    head = block[:HEAD].view(np.int64)
    head[:] = density.gradient_address, density.handle, density.dim, 0, room
    return make_density(0, _gradient.address, block.ctypes.data, density.dim), block


def forget(block):
    """Begin to write anew."""
    block[:HEAD].view(np.int64)[WRITTEN] = 0


def positions(block):
    """Return the positions written down, shape (n, dim)."""
    head = block[:HEAD].view(np.int64)
    return block[HEAD:][: head[WRITTEN] * head[DIM]].reshape(-1, head[DIM])
