"""Settings with which samplers adapt in the short runs of tests."""

# gad learns an entry of L at a fixed rate in units of the target: tests are shorter than papers
FASTER = {
    "gad_rwm": {"learning_rate": 5e-3},
    "gad_mala": {"learning_rate": 5e-3},
    "gad_hmc": {"learning_rate": 5e-3},
    "kameleon": {"subsample": 100},
}
