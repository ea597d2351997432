"""Codes of messages about targets, and about the posteriors of a local posteriordb."""

from stanadapt.errors.codes import NOTE, Code

NOT_A_TARGET = Code(
    "not_a_target",
    "settings",
    "The first argument is not a target, or the function needs a program with its data.",
    "Give Target(program, data), or the attribute `target` of a distribution built from one.",
)
ESTIMATED_DENSITY = Code(
    "estimated_density",
    "settings",
    "The method follows gradients, but the density is an estimate with noise.",
    "Use sample, or make the target without noise.",
)
FIT_OF_ANOTHER_TARGET = Code(
    "fit_of_another_target",
    "settings",
    "The fit and the target have different programs or different data.",
    "Give the target that was sampled, or a fit of this target.",
)
INVALID_NOISE = Code(
    "invalid_noise",
    "settings",
    "The parameters named as noise cannot be the noise of an estimated density.",
    "Declare them last, without constraints, and give each a standard normal distribution.",
)
INVALID_EXCLUDE = Code(
    "invalid_exclude",
    "settings",
    "A name in exclude is not a transformed parameter or generated quantity of the program.",
    "Name computed quantities only, because parameters are always stored.",
)
PARAMETER_SIZES = Code(
    "parameter_sizes",
    "settings",
    "The prior data change the sizes of the parameters.",
    "Keep the data on which sizes depend, and remove observations only.",
)
PRIOR_DATA_MISPLACED = Code(
    "prior_data_misplaced",
    "settings",
    "For a distribution that has its own option for prior data, `sample` does not take any.",
    "Give prior_data when you create the distribution.",
)
RESERVED_VARIABLE = Code(
    "reserved_variable",
    "settings",
    "A variable of the program has a name that the group of pseudo-samples reserves.",
    "Rename the variable in the program, or do not save the pseudo-samples.",
)
UNUSABLE_SCALES = Code(
    "unusable_scales",
    "settings",
    "Standardized coordinates need a finite location and finite, positive scales.",
    "Let the sampler learn the scales, or correct the values.",
)
INVALID_POSITION = Code(
    "invalid_position",
    "initialization",
    "Values of the parameters do not match their declared shapes or constraints.",
    "Give every parameter a value of its declared shape that satisfies its constraints.",
)
NOISY_ESTIMATE = Code(
    "noisy_estimate",
    NOTE,
    "The log density is estimated with so much noise that chains get stuck.",
    "Average over more noise in the program, or correlate the noise of successive iterations "
    "(rho).",
)
INCONSISTENT_ESTIMATE = Code(
    "inconsistent_estimate",
    NOTE,
    "The mean of the estimated density depends on the seed, so it may be biased.",
    "Check that the program's estimate is unbiased and that the noise is standard normal.",
)
NOT_A_POSTERIORDB = Code(
    "not_a_posteriordb",
    "files",
    "The folder contains no posteriors in the layout of posteriordb.",
    "Give the path of a clone of posteriordb, or of its folder posterior_database.",
)
UNKNOWN_POSTERIOR = Code(
    "unknown_posterior",
    "settings",
    "The database has no posterior with this name.",
    "Choose one of its names, which `stanadapt models --posteriordb PATH` lists.",
)
NO_REFERENCE_DRAWS = Code(
    "no_reference_draws",
    "settings",
    "The database has no reference draws of this posterior.",
    "Compare with Stan's NUTS instead.",
)
POSTERIORDB_FILE_MISSING = Code(
    "posteriordb_file_missing",
    "files",
    "The copy of the database lacks a file of this posterior.",
    "Update the clone (git pull), or choose another posterior.",
)
POSTERIORDB_FILE_BROKEN = Code(
    "posteriordb_file_broken",
    "files",
    "A file of the database cannot be read, or has unexpected contents.",
    "Update the clone (git pull), or choose another posterior.",
)
TABLE_UNREADABLE = Code(
    "table_unreadable",
    "files",
    "A user's table of inputs and labels cannot be read, or has no rows.",
    "Give a text file with one row per case, or a MATLAB file with a matrix X.",
)
TABLE_SHAPE = Code(
    "table_shape",
    "data",
    "Rows of a table have only one column, or different numbers of columns: the delimiter may be "
    "wrong.",
    "Name the delimiter (--delimiter comma, semicolon, tab or space), or correct the row.",
)
TABLE_COLUMN = Code(
    "table_column",
    "data",
    "A table has no column with the number or the name given for the label.",
    "Give --label last, a number from 1, or a name in the header.",
)
TABLE_MISSING = Code(
    "table_missing",
    "data",
    "A table has a missing or infinite value.",
    "Remove the row, or fill the value in.",
)
TABLE_TEXT = Code(
    "table_text",
    "data",
    "A table has text where a number is expected, or labels that are text.",
    "Replace words by numbers, and say which label is 1 and which is 0 (--classes ONE ZERO).",
)
TABLE_CONSTANT = Code(
    "table_constant",
    "data",
    "A column of inputs has the same value in all rows, so it cannot be standardized.",
    "Remove the column: the program has an intercept.",
)
TABLE_CLASSES = Code(
    "table_classes",
    "data",
    "The labels of a table do not form two classes.",
    "Name the column of labels (--label), or choose two of several classes (--classes ONE ZERO).",
)
TABLE_RANGE = Code(
    "table_range",
    "data",
    "A table of images has numbers that are not brightness values.",
    "Give pixels from 0 to 255, or from 0 to 1.",
)
