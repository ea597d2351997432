"""A made-up posteriordb in the layout of the real one, with one posterior and its draws."""

import json
import zipfile

import numpy as np

NAME = "tiny_data-tiny"
PROGRAM = """
data { int<lower=0> N; vector[N] y; }
parameters { real mu; vector[2] z; matrix[2, 3] M; }
transformed parameters { vector[2] w = mu + z; }
model { mu ~ normal(0, 1); z ~ normal(0, 2); to_vector(M) ~ normal(0, 1); y ~ normal(mu, 1); }
"""
# the posterior of mu is normal with this mean and standard deviation
Y = [1.0, 2.0, 4.0]
MEAN, SD = 7.0 / 4.0, 0.5


def packed(path, content):
    path = path.with_name(f"{path.name}.zip")
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(path.stem, json.dumps(content))
    return path


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def draws(chains=10, length=200, shift=0.0):
    """Exact draws of the posterior, as the database holds them: w and mu, and not z."""
    rng, found = np.random.default_rng(7), []
    for _ in range(chains):
        mu, z = MEAN + shift + SD * rng.normal(size=length), 2.0 * rng.normal(size=(2, length))
        chain = {"mu": mu.tolist(), "w[1]": (mu + z[0]).tolist(), "w[2]": (mu + z[1]).tolist()}
        for i, j in np.ndindex(2, 3):
            chain[f"M[{i + 1},{j + 1}]"] = rng.normal(size=length).tolist()
        found.append(chain)
    return found


def tiny(folder, *, name=NAME, shift=0.0, program=PROGRAM):
    """Write the database; return the path of its clone."""
    root = folder / "posterior_database"
    posterior = {
        "name": name, "keywords": [], "model_name": "tiny", "data_name": "tiny_data",
        "reference_posterior_name": name, "dimensions": {"mu": 1, "w": 2, "M": [2, 3]},
    }  # fmt: skip
    written(root / "posteriors" / f"{name}.json", posterior)
    bare = {**posterior, "name": "bare", "reference_posterior_name": None, "data_name": None}
    written(root / "posteriors" / "bare.json", bare)
    written(root / "models" / "stan" / "tiny.stan", program)
    packed(root / "data" / "data" / "tiny_data.json", {"N": len(Y), "y": Y})
    reference = root / "reference_posteriors" / "draws"
    packed(reference / "draws" / f"{name}.json", draws(shift=shift))
    about = {"inference": {"method": "stan_sampling"}, "versions": {"rstan_version": "rstan 2.19"}}
    written(reference / "info" / f"{name}.info.json", about)
    return folder
