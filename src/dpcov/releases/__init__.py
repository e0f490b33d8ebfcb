"""Releases: the noisy matrix, the guarantee, and everything that dpcov computes from both.

No function of this package reads data. Every computation from a release costs no further privacy.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcov.core.files import read_text, write
from dpcov.core.printable import listed, printable, shown
from dpcov.core.show import html
from dpcov.core.show.table import MAX_FULL_ROWS, Row, Table
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.estimate.shares import with_other
from dpcov.published import record
from dpcov.published.kinds import NoisyCount, NoisySums, NoisyTrace, Published
from dpcov.published.record import NOT_PRIVATE, Record
from dpcov.releases import dates, unprotected
from dpcov.releases.advisories import VOID, advisories

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.privacy import Guarantee
    from dpcov.core.show.frames import Library
    from dpcov.estimate.error_covariance import ErrorCovariance
    from dpcov.rows.schema import Schema

    Which = Literal["covariance", "correlation", "second_moment"]

# Names that `dir(release)` lists, which are the stable ones.
PUBLIC_NAMES = (
    *("schema", "guarantee", "mechanism", "parameters", "rounds", "unit_count", "reproducible"),
    *("provenance", "group", "columns", "mean", "variance", "covariance"),
    *("correlation", "error_covariance", "second_moment", "count", "total_weight", "to_frame"),
    *("to_text", "save", "load", "guarantee_in_words", "not_protected", "not_released"),
)
# Attributes until version 0.2: the kind of answer that has the value, and its name there.
FORMER_NAMES: dict[str, tuple[type[Published], str | None]] = {
    "sums": (NoisySums, None),
    "trace_noise": (NoisyTrace, "noise"),
    "published_trace": (NoisyTrace, "value"),
    "count_noise": (NoisyCount, "noise"),
    "published_count": (NoisyCount, "value"),
}
SEEDED = "NOT PRIVATE: made with a seed, for tests only."
MAX_SHOWN_FEATURES = 5  # Number of features that the short form of a release names.
MAX_FILE_BYTES = 2**33  # Largest size of a release file. The largest schema needs less.


class VoidReleaseWarning(UserWarning):
    """Warning about a release file whose guarantee may be void because of an old fault."""


@dataclass(frozen=True, repr=False, eq=False)
class Release(Record):
    """Second moment of a table, released with differential privacy.

    p is the number of features, and d is the order of the matrix. With an intercept, d is p + 1.

    Parameters
    ----------
    schema : Schema
        Declaration of the columns.

    guarantee : Guarantee
        Privacy guarantee: the budget, the neighbouring tables and the privacy unit.

    mechanism : str
        Name of the mechanism.

    parameters : mapping of str
        Options of the mechanism.

    rounds : tuple of Round
        Queries of the mechanism in order, each with its published answer and its cost.

    unit_count : int or None
        Number of rows or persons. None under add-remove, where this number is private.

    reproducible : bool
        True if a seed was used. Such a release is NOT PRIVATE.

    denoise : str
        Denoising method: ``none``, ``project`` or ``shrink``.

    denoised : ndarray, shape (d, d), or None
        Denoised second moment, in squared units of an encoded row.

    provenance : mapping of str
        Library, version, date and data source of the release.

    group : Group or None
        Level of the rows, if each level of a column has a release of its own. In this case
        `guarantee` describes this release alone under add-remove.

    See Also
    --------
    dpcov.release : Make a release.
    dpcov.load : Read a release file.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> release.columns
    ('x0', 'x1')
    >>> bool(abs(release.mean()[0] - 0.5) < 0.05)
    True

    """

    def __dir__(self) -> list[str]:
        """Return the public names. Other names belong to the analyses of dpcov."""
        return sorted(PUBLIC_NAMES)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that release objects had until version 0.2, with a warning."""
        if name not in FORMER_NAMES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        kind, part = FORMER_NAMES[name]
        instead = f"release.find({kind.__name__})"
        warnings.warn(
            f"Release.{name} is deprecated and goes in version 0.5. Use {instead}.",
            FutureWarning,
            stacklevel=2,
        )
        answer: Any = self.find(kind)
        return answer if part is None or answer is None else getattr(answer, part)

    @property
    def whole_guarantee(self) -> Guarantee:
        """Guarantee of all releases together, if each level of a column has a release of its own.

        In all other cases, `whole_guarantee` equals `guarantee`.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.whole_guarantee.budget
        PureDP(epsilon=1.0)

        """
        return self.guarantee if self.group is None else self.group.together

    @property
    def may_be_void(self) -> bool:
        """True if an old version made the release, so that the guarantee may be void.

        That version read some tables in a way that invalidates the guarantee.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.may_be_void
        False

        """
        return "version" not in self.provenance

    def made_by(self) -> str:
        """Return a phrase that names the library, the date and the data source of the release.

        Returns
        -------
        str
            The facts of `provenance`, separated by commas.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> release.made_by().startswith("dpcov")
        True

        """
        source, apart = self.provenance.get("door"), ("version", "door", "not_protected")
        facts = [fact for name, fact in self.provenance.items() if name not in apart]
        return ", ".join([*facts, *([f"read as {source}"] if source else [])])

    def not_protected(self) -> str:
        """Return a sentence on everything that the release discloses without protection.

        Returns
        -------
        str
            A list of the public facts: the schema, the budget and the running time. Under
            replace-one, the list also contains the number of rows or persons. Facts that only this
            mechanism or this data source discloses follow.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> "the budget" in release.not_protected()
        True

        """
        public = ["the schema (columns, bounds, levels)", "the budget", "the running time"]
        if self.unit_count is not None:
            units = "rows" if self.guarantee.unit.column is None else "persons"
            public.append(f"the number of {units} ({self.unit_count})")
        found = f"{', '.join(public[:-1])} and {public[-1]}"
        own = unprotected.of_mechanism(self.mechanism, self.rounds)
        caveat = self.provenance.get("not_protected", "").rstrip(".")
        return ". ".join([found, *own, *([caveat] if caveat else [])])

    def second_moment(self) -> Matrix:
        """Return the denoised second moment of the encoded rows.

        Returns
        -------
        ndarray, shape (d, d)
            Second moment in squared units of an encoded row. The matrix is positive semidefinite
            unless `denoise` is ``none``. With an intercept t, the last row and column contain t
            times the sums of the features. The last diagonal entry is t^2 times the number of rows.

        Raises
        ------
        NotReleasedError
            The release holds no second moment.

        See Also
        --------
        Release.covariance : Covariance in the units of the data.
        Release.noisy : Second moment without denoising.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> bool(np.linalg.eigvalsh(release.second_moment())[0] > -1e-6)
        True

        """
        return Estimate.of(self).second_moment

    @property
    def tells_count(self) -> bool:
        """True if the release contains the number of rows, either exactly or with noise.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=1.0)
        >>> release.tells_count
        True

        """
        return Estimate.of(self).has_count

    def total_weight(self) -> float:
        """Return a private estimate of the sum of the survey weights.

        Returns
        -------
        float
            Sum of the weights; without weights, the number of rows.

        Raises
        ------
        NotReleasedError
            The release contains no number of rows.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.full((5000, 2), 0.5), lower=0, upper=1, epsilon=10.0)
        >>> release.total_weight() == release.count()
        True

        """
        return self.count() * (1.0 if self.schema.weight is None else self.schema.weight.maximum)

    def mean(self) -> Matrix:
        """Return the private means of the features.

        Returns
        -------
        ndarray, shape (p,)
            Means in the units of the data, in the order of `columns`. Unless `denoise` is ``none``,
            means lie within the bounds, and the shares of a category add up to at most 1.

        Raises
        ------
        NotReleasedError
            The release contains no means. The message names what it contains.

        See Also
        --------
        dpcov.intervals : Intervals for the means.
        dpcov.noise_warnings : Warnings about means that are below the noise level.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(abs(release.mean()[0] - 0.5) < 0.05)
        True

        """
        return Estimate.of(self).means.copy()

    def variance(self) -> Vector:
        """Return the private variances of the features.

        Returns
        -------
        ndarray, shape (p,)
            Variances in the squared units of the data, in the order of `columns`. The divisor is
            the number of rows n, and not n - 1. They are the diagonal of `covariance`, if the
            release contains one.

        Raises
        ------
        NotReleasedError
            The release contains no variances. The message names what it contains.

        See Also
        --------
        dpcov.intervals : Intervals for the variances.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.linspace(0, 1, 5000)[:, None]
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(abs(release.variance()[0] - 1 / 12) < 0.02)
        True

        """
        return Estimate.of(self).variances.copy()

    def covariance(self) -> Matrix:
        """Return the private covariance matrix of the features.

        Returns
        -------
        ndarray, shape (p, p)
            Covariances in the units of the data, in the order of `columns`. The divisor is the
            number of rows n, and not n - 1.

        Raises
        ------
        NotReleasedError
            The release contains no covariances; `not_released` gives the reason.

        See Also
        --------
        Release.correlation : Correlations of the features.
        dpcov.intervals : Intervals for the covariances.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(abs(release.covariance()[0, 0] - 1 / 12) < 0.02)
        True

        """
        record.refuse(self.not_released)
        found = Estimate.of(self)
        return found.coherent[1] * np.outer(found.scales, found.scales)

    def correlation(self) -> Matrix:
        """Return the private correlation matrix of the features.

        Returns
        -------
        ndarray, shape (p, p)
            Correlations in the order of `columns`, with 1 on the diagonal. The correlations of a
            feature are 0 if the denoised matrix shows no variance of the feature.

        Raises
        ------
        NotReleasedError
            The release contains no correlations; `not_released` gives the reason.

        See Also
        --------
        dpcov.correlation_standard_errors : Standard errors due to the privacy noise.
        dpcov.intervals : Intervals for the correlations.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> bool(release.correlation()[0, 1] < -0.9)
        True

        """
        return Estimate.of(self).correlation.copy()

    def error_covariance(
        self,
        *,
        sampling: bool = True,
        columns: Sequence[str] | None = None,
        generator: np.random.Generator | None = None,
    ) -> ErrorCovariance:
        """Return the covariance matrix of the errors of the means and covariances.

        Parameters
        ----------
        sampling : bool, default True
            True adds the sampling error, for statements about the population. False gives only the
            errors from privacy noise, clipping and rounding.

        columns : sequence of str, optional
            Columns to include, in this order. Default: all columns.

        generator : numpy.random.Generator, optional
            Random numbers for the simulation. The default gives the same result every time.

        Returns
        -------
        ErrorCovariance
            Matrix, and the names of its rows. The means come first, and then the covariances of
            the lower triangle, column by column. Its method `to_frame` returns a data frame.

        Raises
        ------
        NotReleasedError
            The release contains no covariances or has no noise distribution.
        ReleaseError
            A column is unknown, there are too many columns, or the noise hides the number of rows.

        See Also
        --------
        dpcov.standard_errors : Standard errors of any function of the means and covariances.
        dpcov.intervals : Intervals for statistics.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> release.error_covariance().names
        ('x0', 'x1', 'x0~~x0', 'x0~~x1', 'x1~~x1')

        """
        from dpcov.estimate.error_covariance import error_covariance

        return error_covariance(self, sampling=sampling, columns=columns, generator=generator)

    @property
    def uninformative(self) -> bool:
        """True if no correlation rises above the noise, so that all correlations are 0.

        The property is also True if the release holds a trace and no matrix. The property is False
        if the release contains no correlations for another reason.

        See Also
        --------
        dpcov.correlation_standard_errors : Standard errors of the correlations.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> x = np.linspace(0, 1, 5000)
        >>> release = dpcov.release(np.column_stack([x, x]), lower=0, upper=1, epsilon=10.0)
        >>> release.uninformative
        False

        """
        return Estimate.of(self).uninformative

    @property
    def centers(self) -> Vector:
        """Data values that dpcov encodes as 0, shape (p,), in the units of the data.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=[1, 4], epsilon=1.0)
        >>> release.centers
        array([0.5, 2. ])

        """
        return Estimate.of(self).centers.copy()

    @property
    def scales(self) -> Vector:
        """Data units in one unit of each encoded feature, shape (p,).

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50)[:, :2], lower=0, upper=[1, 4], epsilon=1.0)
        >>> release.scales
        array([0.5, 2. ])

        """
        return Estimate.of(self).scales.copy()

    def to_frame(self, which: Which = "covariance", library: Library = "pandas") -> Any:
        """Return a matrix of the release as a data frame with the names of the features.

        Parameters
        ----------
        which : {"covariance", "correlation", "second_moment"}, default "covariance"
            Matrix of the frame. ``second_moment`` is the denoised second moment of the encoded
            rows. Its last row is the intercept, if there is one.

        library : {"pandas", "polars", "pyarrow"}, default "pandas"
            Library of the data frame.

        Returns
        -------
        DataFrame or pyarrow.Table
            Frame with one column for each feature.

        Raises
        ------
        ReleaseError
            The matrix does not exist.
        NotReleasedError
            The release does not contain the matrix.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> release.to_frame("correlation").shape
        (2, 2)

        """
        from dpcov.core.show.frames import frame

        if which not in ("covariance", "correlation", "second_moment"):
            raise ReleaseError(
                f"The matrix {which!r} does not exist. "
                "Choose: covariance, correlation, second_moment."
            )
        intercept = ["(intercept)"] if which == "second_moment" and self.has_intercept else []
        matrix: Matrix = getattr(self, which)()
        of = self.schema.features if which == "second_moment" else self.schema.variables
        return frame([*(feature.name for feature in of), *intercept], matrix, library)

    def guarantee_in_words(self) -> str:
        """Return the privacy guarantee as a sentence.

        Returns
        -------
        str
            Guarantee; for a release with a seed, a sentence that there is none.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> release.guarantee_in_words() != ""
        True

        """
        if self.reproducible:
            return f"{NOT_PRIVATE}. A seed was used, so this release protects nobody."
        if self.group is not None:
            together = self.group.together.in_words()
            return f"All releases by {self.group.column!r} together: {together}"
        return self.guarantee.in_words()

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the release to a JSON file. A failure leaves no partial file.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        force : bool, default False
            Replace an existing file.

        Raises
        ------
        OutputError
            The file exists and `force` is False, or dpcov cannot write the file.

        See Also
        --------
        dpcov.load : Read a release file.

        Examples
        --------
        >>> import tempfile
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/release.json")
        ...     dpcov.load(f"{folder}/release.json") == release
        True

        """
        write(path, self.to_text(), force=force)

    def to_text(self, indent: int | None = 1) -> str:
        """Return the content of the release file.

        Parameters
        ----------
        indent : int or None, default 1
            Number of spaces of the indentation; None writes one line.

        Returns
        -------
        str
            JSON text.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> release.to_text().startswith("{")
        True

        """
        from dpcov.releases.file import to_document

        return json.dumps(to_document(self), indent=indent) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release file. dpcov validates the file and executes no code from it.

        Parameters
        ----------
        path : str or Path
            Name of the file.

        Returns
        -------
        Release
            Release in the file.

        Raises
        ------
        ReleaseError
            The file is not a valid release file. The message names the first fault.

        Warns
        -----
        VoidReleaseWarning
            An old version made the file, and the guarantee may be void.

        See Also
        --------
        Release.save : Write a release file.

        Examples
        --------
        >>> import tempfile
        >>> import dpcov
        >>> import numpy as np
        >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/release.json")
        ...     dpcov.Release.load(f"{folder}/release.json").mechanism == release.mechanism
        True

        """
        from dpcov.releases.file import from_text

        text = read_text(path, "release", ReleaseError, most=MAX_FILE_BYTES)
        loaded = from_text(text, shown(path))
        Estimate.of(loaded).denoise()
        if loaded.may_be_void:
            warnings.warn(VOID, VoidReleaseWarning, stacklevel=2)
        return loaded

    def _facts(self) -> dict[str, str]:
        """Return the short description of the release, by the name of each fact."""
        facts = {
            "guarantee": self.guarantee_in_words(),
            "mechanism": f"{self.mechanism}, denoised by {self.denoise}",
            "features": listed(self.columns, MAX_SHOWN_FEATURES),
        }
        if self.not_released is not None:
            facts["not released"] = self.not_released
        if self.row_count is not None:
            facts["rows"] = f"{self.row_count} (public)"
        elif self.tells_count:
            facts["rows"] = f"about {self.count():.0f} (private: with noise)"
        return facts | {"made by": self.made_by()}

    def __repr__(self) -> str:
        faults = advisories(self)
        facts = self._facts() | ({"warning": " ".join(faults)} if faults else {})
        return "\n".join(["Release", *(f"  {name}: {printable(it)}" for name, it in facts.items())])

    def _repr_html_(self) -> str:
        """Return the short description of the release and its means as HTML."""
        rows: list[Row] = [(name, [fact]) for name, fact in self._facts().items()]
        shown = [Table(("", ""), rows, "Private release", words=True)]
        if self.reasons.means is None:
            deviations = np.sqrt(np.maximum(self.variance(), 0.0))
            figures = zip(self.columns, self.mean().tolist(), deviations.tolist(), strict=True)
            means: list[Row] = [
                (
                    name,
                    [*dates.shown(self.schema, name, [mean]), dates.length(self.schema, name, own)],
                )
                for name, mean, own in figures
            ]
            means = with_other(self.schema, self.mean(), means, deviation=1)
            left = max(len(means) - MAX_FULL_ROWS, 0)
            heads = ("", "mean", "std. deviation")
            shown.append(Table(heads, means[:MAX_FULL_ROWS], beyond=left, rest="features"))
        against = [NOT_PRIVATE] * self.reproducible + [*advisories(self)]
        return "".join(html.paragraph(text, "strong") for text in against) + html.tables(shown)


def load(path: str | Path) -> Release:
    """Read a release file.

    Parameters
    ----------
    path : str or Path
        Name of the file.

    Returns
    -------
    Release
        Release in the file.

    Raises
    ------
    ReleaseError
        The file is not a valid release file. The message names the first fault.

    Warns
    -----
    VoidReleaseWarning
        An old version made the file, and the guarantee may be void.

    See Also
    --------
    Release.save : Write a release file.
    dpcov.release : Make a release.

    Examples
    --------
    >>> import tempfile
    >>> import dpcov
    >>> import numpy as np
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/release.json")
    ...     dpcov.load(f"{folder}/release.json") == release
    True

    """
    return Release.load(path)


def largest_file(schema: Schema, dimension: int) -> int:
    """Return the largest possible size of a release file.

    Parameters
    ----------
    schema : Schema
        Schema of the release.

    dimension : int
        Order d of the released matrix.

    Returns
    -------
    int
        Size in bytes.

    """
    # Each entry is an integer of the noisy matrix, two floats of the map and, if the file is older,
    # a float of the denoised matrix. A directions query repeats the schema and all other matrices.
    entry = 176
    return entry * dimension * (dimension + 1) // 2 + 16 * len(schema.model_dump_json()) + 2**15
