"""Whether coordinates have the names of what moves with them."""

import numpy as np

from stanadapt.targets.coordinates import element_name


def misnamed(target):
    """Move each coordinate by itself; return those that do not have the name of what moves."""
    columns = target.model.param_names()
    ranks = {d.name: len(d.array_sizes) for d in target.declared_parameters}
    here = np.random.default_rng(3).normal(scale=0.5, size=target.dim)
    values, wrong = target.model.param_constrain(here), []
    inside = {}  # the last number of each element of an array: column major, if they are two
    for k, coordinate in enumerate(target.coordinates):
        name, variable, index = coordinate.name, coordinate.variable, coordinate.index
        there = here.copy()
        there[k] += 0.1
        moved = [columns[i] for i in np.flatnonzero(target.model.param_constrain(there) != values)]
        # parameters whose bounds depend on this one move as well
        moved = [column for column in moved if column.split(":")[0].split(".")[0] == variable]
        array, number = index[: ranks[variable]], index[ranks[variable] :][::-1]
        numbered = inside.get((variable, array), ()) < number
        inside[variable, array] = number
        same = {tuple(map(int, c.split(".")[1 : len(array) + 1])) for c in moved} == {array}
        if [name] != list(map(element_name, moved)) and not (numbered and same):
            wrong.append((name, moved))
    return wrong
