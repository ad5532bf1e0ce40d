"""Where the project's repository is, for the buttons that open a notebook elsewhere."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass

from fedlib.errors import Error
from fedlib.paths import project_root

ADDRESS = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


@dataclass(frozen=True)
class Repository:
    """A repository on GitHub.

    Attributes:
        owner, name: as in its address.
        branch: whose files the buttons open.
    """

    owner: str
    name: str
    branch: str = "main"

    @property
    def address(self) -> str:
        """Of its front page."""
        return f"https://github.com/{self.owner}/{self.name}"

    def colab(self, notebook: str) -> str:
        """The address that opens a notebook (its stem) in Colab."""
        place = f"{self.owner}/{self.name}/blob/{self.branch}/notebooks/{notebook}.ipynb"
        return f"https://colab.research.google.com/github/{place}"

    def binder(self, notebook: str) -> str:
        """The address that builds ``environment.yml`` on Binder and opens a notebook (its stem)."""
        place = f"{self.owner}/{self.name}/{self.branch}"
        return f"https://mybinder.org/v2/gh/{place}?urlpath=lab/tree/notebooks/{notebook}.ipynb"


def configured() -> Repository | None:
    """The repository of ``FEDLIB_REPOSITORY``, else of ``Repository`` in pyproject.toml's urls.

    ``FEDLIB_BRANCH`` is the branch, default main. None where no address is given.

    Raises:
        Error: an address that is no repository on GitHub, from where alone Colab and Binder open
            notebooks.
    """
    address = os.environ.get("FEDLIB_REPOSITORY", "").strip()
    if not address:
        project = tomllib.loads((project_root() / "pyproject.toml").read_text(encoding="utf-8"))
        address = project["project"].get("urls", {}).get("Repository", "")
    if not address:
        return None
    parts = ADDRESS.fullmatch(address)
    if parts is None:
        raise Error(
            f"the repository's address is {address!r}; allowed: https://github.com/OWNER/NAME"
        )
    return Repository(parts[1], parts[2], os.environ.get("FEDLIB_BRANCH") or "main")
