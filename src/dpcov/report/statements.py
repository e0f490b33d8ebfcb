"""What a curator states about a release, because the file cannot know it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal

from dpcov.core.printable import printable
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from dpcov.releases import Release

# The sectors of the registry of deployments.
Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]

NOT_STATED = "Not stated."
DATA_SEEN = {
    True: "Somebody inspected the data before the bounds and the budget were chosen. The guarantee "
    "does not cover what these choices disclose.",
    False: "Nobody inspected the data before the bounds and the budget were chosen.",
    None: "Not stated: whether anybody inspected the data before the bounds and the budget were "
    "chosen.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Statements of the curator. An empty text means that the curator states nothing.

    Attributes
    ----------
    title : str
        Name of the data product.

    curators : tuple of str
        Names of those who publish the release.

    use : str
        Intended use of the release.

    region : str
        Region that the data describe, or whose laws apply.

    sector : str or None
        Sector that the data describe.

    justification : str
        Reasons for the choices: budget, bounds, privacy unit and mechanism.

    data_seen : bool or None
        True if somebody inspected the data before the choices. None if this is not stated.

    published : datetime.date or None
        Date of publication. None stands for the date in the release file.

    """

    title: str = "Private covariance release"
    curators: tuple[str, ...] = ()
    use: str = ""
    region: str = ""
    sector: Sector | None = None
    justification: str = ""
    data_seen: bool | None = None
    published: date | None = None

    @property
    def inspection(self) -> str:
        """Sentence that states whether anybody inspected the data first."""
        return DATA_SEEN[self.data_seen]

    def missing(self) -> tuple[str, ...]:
        """Return the options of the command for required facts that are not stated."""
        needed = {"--curator": self.curators, "--use": self.use, "--region": self.region}
        return tuple(option for option, value in needed.items() if not value)

    def date_of(self, release: Release) -> date:
        """Return the date of publication.

        Parameters
        ----------
        release : Release
            Release, whose file states the date when dpcov made it.

        Returns
        -------
        datetime.date
            Date of publication, or else the date in the file.

        Raises
        ------
        ReleaseError
            Neither the curator nor the file states a date.

        """
        if self.published is not None:
            return self.published
        try:
            return date.fromisoformat(release.provenance.get("date", ""))
        except ValueError:
            raise ReleaseError(
                "This release file states no valid date. Add the date of publication with "
                "--published YYYY-MM-DD."
            ) from None


def stated(text: str) -> str:
    """Return a statement as printable text, or a note that it is missing."""
    return printable(text) or NOT_STATED
