#!/bin/sh
# stanli 0.24.0: the same data take three times the memory through the entry that BridgeStan 2.9.0 calls in its
# library than through its own class `Model`. The program travels within the data there, so that the JSON text
# is parsed and written again before the reader of Stan's data sees it. Here the text is given to the library
# directly; `bridgestan_model` of the Python package decodes and encodes it beforehand, which adds to this.
# Seen, for two million numbers (39 MB of text): 64 MB more at peak with `Model`, and 197 MB with the entry. The
# log densities are equal.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet stanli==0.24.0 bridgestan==2.9.0 numpy==2.4.6
cat > "$folder/bind.py" <<'PY'
import json
import resource
import sys

import bridgestan
import numpy as np
import stanli

CODE = "data { int N; vector[N] y; } parameters { real m; } model { y ~ normal(m, 1); }"
y = np.random.default_rng(1).normal(size=2_000_000)
text = json.dumps({"N": len(y), "y": y.tolist()})
program = {"build_id": stanli.build_id(), "mir": stanli.stan_to_mir(CODE), "name": "normal"}
both = f'{text[:-1]}, "__stanli": {json.dumps(program)}}}'


def peak():
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


before = peak()
if sys.argv[1] == "own":
    model = stanli.Model(stan_code=CODE, data=text)
    evaluate = model.log_prob_grad
else:
    model = bridgestan.StanModel(stanli._runtime_lib_path(), both, warn=False)
    evaluate = model.log_density_gradient
used = peak() - before
value, _ = evaluate(np.zeros(1))
print(f"{used:.0f} {len(text) / 2**20:.0f} {value:.10g}")
PY
own=$("$folder/env/bin/python" "$folder/bind.py" own)
entry=$("$folder/env/bin/python" "$folder/bind.py" entry)
echo "own: $own; entry: $entry (megabytes more, megabytes of text, log density)"
"$folder/env/bin/python" - "$own" "$entry" <<'PY'
import sys

(own, text, one), (entry, _, other) = (map(float, each.split()) for each in sys.argv[1:])
assert own < 2.5 * text
assert entry > 3.5 * text
assert abs(one - other) < 1e-9 * abs(one)
PY
