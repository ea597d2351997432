"""Codes of messages about Stan programs, their data, and the installation of CmdStan."""

from stanadapt.errors.codes import Code

# -- programs -------------------------------------------------------------------------------------

SYNTAX_ERROR = Code(
    "syntax_error",
    "syntax",
    "Stan's compiler does not accept the program.",
    "Correct the line that Stan's message names; a program may also need a newer CmdStan.",
)
EMPTY_PROGRAM = Code(
    "empty_program",
    "syntax",
    "The program contains no code.",
    "Give a Stan program with at least a model block.",
)
CIRCULAR_INCLUDES = Code(
    "circular_includes",
    "syntax",
    "The files of the program include each other in a circle.",
    "Remove one of the includes that the message lists.",
)
NOT_A_STAN_FILE = Code(
    "not_a_stan_file",
    "files",
    "The program is neither Stan code nor the path of a .stan file.",
    "Give a path that ends in .stan; text with a newline or a brace is read as code.",
)
INCLUDE_MISSING = Code(
    "include_missing",
    "files",
    "An included file is in none of the folders that are searched.",
    "Give its folder in include_paths.",
)
INVALID_INCLUDE_PATH = Code(
    "invalid_include_path",
    "files",
    "The argument include_paths contains something that is not a folder.",
    "Give one existing folder or a list of them.",
)
UNKNOWN_BUNDLED_PROGRAM = Code(
    "unknown_bundled_program",
    "settings",
    "No bundled program has this name.",
    "Choose one of the names that `stanadapt models` lists.",
)
UNKNOWN_DATA_SET = Code(
    "unknown_data_set",
    "settings",
    "The bundled program has no such data set, or has several and needs the name of one.",
    "Choose one of the data sets that the message lists.",
)

# -- data -----------------------------------------------------------------------------------------

DATA_WRONG_TYPE = Code(
    "data_wrong_type",
    "data",
    "The data are not a set of named values.",
    "Give a mapping of names to values, a JSON object as text, or the path of a JSON file.",
)
DATA_NOT_JSON = Code(
    "data_not_json",
    "data",
    "The data are not valid JSON, or contain values that JSON cannot represent.",
    "Correct the text at the position that the message names, or give a Python mapping.",
)
DATA_NOT_R_DUMP = Code(
    "data_not_r_dump",
    "data",
    "A data file is in R's dump format, but contains something other than assignments of numbers.",
    "Correct the line that the message names, or write the data as JSON.",
)
DATA_REPEATED = Code(
    "data_repeated",
    "data",
    "The JSON text, or the file in R's dump format, gives one variable twice.",
    "Remove one of the two entries.",
)
DATA_MISSING = Code(
    "data_missing",
    "data",
    "A variable of the data block has no value.",
    "Add the variables that the message lists; compare the spelling of the names.",
)
DATA_WRONG_SHAPE = Code(
    "data_wrong_shape",
    "data",
    "A value does not have the declared shape, or the embedded backend cannot read its shape.",
    "Give the declared dimensions; a matrix is a list of its rows.",
)
DATA_NOT_NUMERIC = Code(
    "data_not_numeric",
    "data",
    "A value contains an element that is not a number.",
    "Replace strings, booleans and missing values with numbers.",
)
DATA_NOT_FINITE = Code(
    "data_not_finite",
    "data",
    "A value contains NaN or infinity.",
    "Remove these elements, or model missing values as parameters.",
)
DATA_NOT_INTEGER = Code(
    "data_not_integer",
    "data",
    "A value declared int contains a number that is not an integer, or one that does not fit into "
    "32 bits.",
    "Give integers, or declare the variable real.",
)
DATA_OUT_OF_BOUNDS = Code(
    "data_out_of_bounds",
    "data",
    "A value lies outside its declared bounds, or a size is negative.",
    "Correct the data or the bound.",
)

# -- the installation -----------------------------------------------------------------------------

BUILDS_NOT_WRITABLE = Code(
    "builds_not_writable",
    "files",
    "Compiled programs cannot be stored in the cache.",
    "Free space there, or set the environment variable STANADAPT_CACHE to another folder.",
)
UNKNOWN_SOURCE = Code(
    "unknown_source",
    "settings",
    "CmdStan cannot be installed from this source.",
    "Choose one of the sources that the message lists.",
)
CMDSTAN_MISSING = Code(
    "cmdstan_missing",
    "installation",
    "CmdStan is not installed, or was removed.",
    "Run `stanadapt install-cmdstan`.",
)
CMDSTAN_BROKEN = Code(
    "cmdstan_broken",
    "installation",
    "The CmdStan that CmdStanPy would use does not work.",
    "Remove its folder or unset CMDSTAN, and install again.",
)
COMPILER_MISSING = Code(
    "compiler_missing",
    "installation",
    "No C++ compiler was found, or the program make is missing.",
    "Install them with the command in the message, or use backend='stanli'.",
)
DISK_FULL = Code(
    "disk_full",
    "installation",
    "The disk has too little free space for CmdStan.",
    "Free some space, or choose a directory on another disk.",
)
UNSUITABLE_SYSTEM = Code(
    "unsuitable_system",
    "installation",
    "CmdStan cannot be installed in this folder or on this processor.",
    "Choose another folder (stanadapt install-cmdstan --directory FOLDER), or install CmdStan from "
    "GitHub or conda-forge.",
)
DOWNLOAD_FAILED = Code(
    "download_failed",
    "installation",
    "CmdStan could not be downloaded, or the downloaded file is not the expected one.",
    "Check the connection to GitHub and to the package registry, and try again.",
)
CMDSTAN_BUILD_FAILED = Code(
    "cmdstan_build_failed",
    "installation",
    "CmdStan was downloaded but could not be built.",
    "Read the end of the build log; the message contains its path.",
)
