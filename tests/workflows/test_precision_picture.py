"""The picture of errors against gradients: what a row counts."""

import numpy as np
import pandas as pd

from workflows.benchmarks import precision_picture


def test_a_panel_for_each_program_and_a_pair_of_lines_for_each_sampler():
    rows = [
        {"program": program, "sampler": sampler, "draws": n, "gradients": 10.0 * n,
         "crude": n**-0.5, "controlled": 1.0 / n}
        for program in ("a", "b") for sampler in precision_picture.SAMPLERS for n in (25, 100)
    ]  # fmt: skip
    figure = precision_picture.picture(pd.DataFrame(rows))
    assert [axis.get_title() for axis in figure.axes] == ["a", "b"]
    crude, controlled = figure.axes[1].lines[:2]
    np.testing.assert_allclose(crude.get_ydata(), [0.2, 0.1])
    np.testing.assert_allclose(controlled.get_ydata(), [0.04, 0.01])
    np.testing.assert_allclose(controlled.get_xdata(), [250.0, 1000.0])
