"""Files from packages in Debian's registry, by `apt-get download`.

A file of its own, since two sources of data come from there.
"""

import shutil
import subprocess


class NotAvailableError(Exception):
    """The source of a file is not available here, for the reason in the message."""


def downloaded(package, inside, folder):
    """The path of a file in a package, which is extracted into a folder."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise NotAvailableError("apt-get or dpkg-deb is not installed")
    done = subprocess.run(
        ["apt-get", "download", package],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    packages = list(folder.glob("*.deb"))
    if done.returncode or not packages:
        reason = (done.stderr.strip() or "no file was downloaded").splitlines()[-1]
        raise NotAvailableError(f"apt-get download {package} failed: {reason}")
    subprocess.run(["dpkg-deb", "--extract", packages[0], folder], check=True)
    return folder / inside
