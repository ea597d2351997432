"""Stan's windows: from which iterations of warm-up the metric is estimated, and when.

An initial buffer without estimation; windows of doubling length, each ending with a new metric
estimated from its own draws alone; and a terminal buffer in which only the step size is tuned.

References
----------
Stan Reference Manual, section "Automatic parameter tuning"; stan/mcmc/windowed_adaptation.hpp.
Deviation: for 20 to 149 iterations that file (2.27) announces one window of 75 %, but never ends
it, so the metric stays the identity. Here the window ends.

"""

from stanadapt.engine.compiled.jit import jit

INITIAL_BUFFER, TERMINAL_BUFFER, FIRST_WINDOW = 75, 50, 25
# with fewer iterations of warm-up than this the metric is not estimated
SHORTEST_WARMUP = 20
INITIAL_SHARE, TERMINAL_SHARE = 0.15, 0.1  # of a warm-up too short for the lengths above


@jit
def _lengths(iter_warmup):
    """Initial buffer, first window, and the iteration that ends the last window."""
    if iter_warmup >= INITIAL_BUFFER + FIRST_WINDOW + TERMINAL_BUFFER:
        return INITIAL_BUFFER, FIRST_WINDOW, iter_warmup - TERMINAL_BUFFER - 1
    initial = int(INITIAL_SHARE * iter_warmup)
    terminal = int(TERMINAL_SHARE * iter_warmup)
    return initial, iter_warmup - initial - terminal, iter_warmup - terminal - 1


@jit
def window_end(t, iter_warmup):
    """Last iteration of the window that contains iteration t = 0, 1, ...; -1 if there is none."""
    initial, size, last = _lengths(iter_warmup)
    if iter_warmup < SHORTEST_WARMUP or t < initial or t > last:
        return -1
    end = initial + size - 1
    while end < t:
        size *= 2
        end += size
        # a window after which the next does not fit takes the rest
        if end + 2 * size > last:
            end = last
    return end
