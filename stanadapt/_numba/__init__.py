"""What compiled code needs beside statistics: compilation, its cache, vectors, threads."""
