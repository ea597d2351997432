"""Codes of messages of the backends, which evaluate densities."""

from stanadapt.errors.codes import NOTE, Code

UNKNOWN_BACKEND = Code(
    "unknown_backend",
    "settings",
    "No backend has this name.",
    "Choose auto or one of the backends that `stanadapt doctor` lists.",
)
BACKEND_UNAVAILABLE = Code(
    "backend_unavailable",
    "installation",
    "The requested backend cannot be used on this computer.",
    "Install the part that the message names, or use backend='stanli'.",
)
COMPILATION_FAILED = Code(
    "compilation_failed",
    "installation",
    "The C++ compiler, the linker or make failed on a program that Stan accepts.",
    "Run `stanadapt doctor`; reinstall CmdStan, or use backend='stanli'.",
)
LIBRARY_UNUSABLE = Code(
    "library_unusable",
    "installation",
    "A compiled program cannot be loaded or shared by several chains.",
    "Reinstall CmdStan or BridgeStan, or use backend='stanli'.",
)
STANLI_UNUSABLE = Code(
    "stanli_unusable",
    "installation",
    "The installed stanli is not the release for which the checks of this package were written, "
    "or it fails them.",
    "Install the version that the message names, or use another backend.",
)
DATA_REJECTED = Code(
    "data_rejected",
    "data",
    "The program does not accept the data.",
    "Correct the data or the check that Stan's message names.",
)
NO_PARAMETERS = Code(
    "no_parameters",
    "data",
    "The program has no parameters, so there is nothing to sample.",
    "Check the parameters block and the data that set its sizes.",
)
UNSUPPORTED_CONSTRUCT = Code(
    "unsupported_construct",
    "initialization",
    "The embedded backend cannot run the program.",
    "Use backend='cmdstan', or rewrite the program without the construct.",
)
BINDING_LIMIT = Code(
    "binding_limit",
    "initialization",
    "The embedded backend would take too long, or too much memory, to unroll the program's loops.",
    "Use backend='cmdstan', vectorize loops, or raise STANADAPT_BIND_SECONDS or STANADAPT_BIND_GB.",
)
PARAMETER_BRANCHES = Code(
    "parameter_branches",
    "initialization",
    "Control flow may depend on parameters, which the embedded backend does not always handle "
    "correctly.",
    "Use backend='cmdstan', rewrite the program, or pass unsafe=True if you checked the density.",
)
GRADIENT_MISMATCH = Code(
    "gradient_mismatch",
    "initialization",
    "The gradient that the embedded backend computes is not the derivative of its density.",
    "Use backend='cmdstan', rewrite the program, or pass unsafe=True if you checked the density.",
)
CHECKS_OMITTED = Code(
    "checks_omitted",
    NOTE,
    "The embedded backend's checks of the program were skipped.",
    "Leave out unsafe=True, or compare the density with CmdStan's.",
)
OPTIMIZER_FAULT = Code(
    "optimizer_fault",
    NOTE,
    "An optimizer pass of the embedded backend makes the density wrong, so it was switched off.",
    "To be certain, compare with CmdStan.",
)
KNOWN_FAULT = Code(
    "known_fault",
    NOTE,
    "The program calls a function that the installed release of Stan computes wrongly.",
    "Use backend='stanli', or a release of CmdStan without the fault.",
)
DENSITIES_DISAGREE = Code(
    "densities_disagree",
    "initialization",
    "The compiled density and that of the embedded backend differ by more than a constant.",
    "Use the backend that the message trusts; unsafe=True omits the comparison.",
)
NOTHING_COMPARED = Code(
    "nothing_compared",
    NOTE,
    "The density is finite at none of the random points at which the embedded backend is checked.",
    "Compare the density with CmdStan's, or give the parameters bounds that match the density.",
)
