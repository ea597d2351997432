"""Codes of warnings about compiled code and the folder in which it is kept."""

from stanadapt.errors import NOTE, Code

CACHE_NOT_USED = Code(
    "cache_not_used",
    NOTE,
    "The cache folder cannot be written to, or other users can write to it. Compiled code is kept "
    "in a temporary folder, and compiled again by the next process.",
    "Set the environment variable STANADAPT_CACHE to a folder that only you can write to. Code "
    "that is already in a read-only cache is still loaded.",
)
NO_TEMPORARY_FOLDER = Code(
    "no_temporary_folder",
    "files",
    "None of the folders for temporary files (TMPDIR, /tmp, the current folder) can be written "
    "to, and neither can the cache.",
    "Set the environment variable TMPDIR to a folder with some space that you can write to.",
)
SHARED_CACHE_NOT_USED = Code(
    "shared_cache_not_used",
    NOTE,
    "STANADAPT_SHARED_CACHE names a folder that does not exist, or one in which someone other "
    "than you, root and the owner of the package can change a file. Compiled code in it would run "
    "with your rights, so it is not read.",
    "Ask its owner to give it to root (chown -R root) and to remove write permission for others "
    "(chmod -R go-w), for the folders above it too; or unset STANADAPT_SHARED_CACHE.",
)
CODE_NOT_KEPT = Code(
    "code_not_kept",
    NOTE,
    "The disk is full, or the cache folder cannot be written to any more. The run continues with "
    "the compiled code in memory, and the next process compiles it again.",
    "Free some space on the disk, or set the environment variable STANADAPT_CACHE to another "
    "folder.",
)
JIT_CANNOT_BE_DISABLED = Code(
    "jit_cannot_be_disabled",
    NOTE,
    "NUMBA_DISABLE_JIT is set, but stanadapt requires compilation: its code calls C functions by "
    "their addresses, which interpreted code cannot do. The variable is ignored.",
    "Unset NUMBA_DISABLE_JIT.",
)
