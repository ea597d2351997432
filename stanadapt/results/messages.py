"""Codes of errors about results, their files and their labels."""

from stanadapt.errors import Code

FILE_MISSING = Code(
    "file_missing",
    "files",
    "There is no file at the path.",
    "Check the path; a relative path starts at the current folder.",
)
FILE_UNREADABLE = Code(
    "file_unreadable",
    "files",
    "A file cannot be read: it is a folder or a pipe, is not UTF-8 text, or access is denied.",
    "Give a readable text file in UTF-8.",
)
NOT_JSON = Code(
    "not_json",
    "files",
    "A file does not contain valid JSON.",
    "Correct the syntax of the file at the line that the message names.",
)
NOT_A_PATH = Code(
    "not_a_path",
    "files",
    "The name of a file is not text, or not a name that this system allows.",
    "Give a string or a pathlib.Path.",
)
NOT_WRITABLE = Code(
    "not_writable",
    "files",
    "A file cannot be written.",
    "Choose another folder or a shorter name, or free some space on the disk.",
)
NOT_A_RESULT = Code(
    "not_a_result",
    "files",
    "A file does not contain a fit, or is damaged.",
    "Give a netCDF file that stanadapt.save or ArviZ has written.",
)
NOT_A_FIT = Code(
    "not_a_fit",
    "settings",
    "An argument is not an ArviZ object with a posterior.",
    "Give a result of sample or stan_nuts; convert those of CmdStanPy with arviz.from_cmdstanpy.",
)
NO_NUMERIC_DRAWS = Code(
    "no_numeric_draws",
    "settings",
    "The posterior of an ArviZ object has no numbers along the dimensions chain and draw.",
    "Give the object before its draws were stacked, averaged or removed.",
)
UNKNOWN_VARIABLE = Code(
    "unknown_variable",
    "settings",
    "The fits do not have a variable or a group with the given name.",
    "Choose one of the names that the message lists.",
)
EMPTY_POSTERIOR = Code(
    "empty_posterior",
    "settings",
    "All variables of the posterior would be excluded.",
    "Exclude fewer variables.",
)
WRONG_LABELS = Code(
    "wrong_labels",
    "settings",
    "Labels, dims or coords do not match the variables of the program and the data.",
    "Use the names and the numbers of dimensions that the message lists.",
)
RESERVED_NAME = Code(
    "reserved_name",
    "settings",
    "A variable of the program has the name of a dimension that every ArviZ object has.",
    "Rename the variable in the program.",
)
RESULT_REFUSED = Code(
    "result_refused",
    "settings",
    "The result of a run could not be built or saved, because of a name or an attribute.",
    "Rename the variable, the dimension, the statistic or the attribute that the message names.",
)
UNKNOWN_FORMAT = Code(
    "unknown_format",
    "settings",
    "No file format has this name, or no picture format has this file extension.",
    "Choose one of those that the message lists, such as netcdf, or .png for a picture.",
)
NOT_OF_THE_FORMAT = Code(
    "not_of_the_format",
    "settings",
    "An option belongs to another file format.",
    "Leave the option out, or choose the format that the message names.",
)
NO_CMDSTAN_FORM = Code(
    "no_cmdstan_form",
    "settings",
    "The draws of a fit cannot be stored in CmdStan's CSV files: they have weights, do not come "
    "from chains, or have names that Stan does not allow.",
    "Save the fit as netCDF or zarr, or exclude the variable that the message names.",
)
OTHER_CSV_FILES = Code(
    "other_csv_files",
    "files",
    "A folder contains other CSV files, which some programs would take for chains of the fit.",
    "Choose another folder, or add overwrite=True (--force), which removes files of CmdStan there.",
)
ZARR_MISSING = Code(
    "zarr_missing",
    "installation",
    "The package zarr, which reads and writes stores of this format, is not installed.",
    "Install it with `pip install zarr`, or choose the format netcdf.",
)
NO_CHAINS_IN_CSV = Code(
    "no_chains_in_csv",
    "files",
    "The CSV files do not contain chains that CmdStan or stanadapt wrote, or they belong to "
    "different runs.",
    "Give the complete files of all chains of one run of CmdStan's method `sample`.",
)
