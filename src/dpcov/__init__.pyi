# Written from the list in __init__.py, by tests/public_stub.py.

from typing_extensions import deprecated

from dpcov.analysis.any_function import standard_errors as standard_errors
from dpcov.analysis.compare import compare as compare
from dpcov.analysis.correlation import correlation as correlation
from dpcov.analysis.correlation import correlation_standard_errors as correlation_standard_errors
from dpcov.analysis.correlation import nearest_correlation as nearest_correlation
from dpcov.analysis.correlation import partial_correlations as partial_correlations
from dpcov.analysis.cohens_d import cohens_d as cohens_d
from dpcov.analysis.cronbach_alpha import cronbach_alpha as cronbach_alpha
from dpcov.analysis.crosstab import crosstab as crosstab
from dpcov.analysis.discriminant import lda as lda
from dpcov.analysis.intervals import coefficients as coefficients
from dpcov.analysis.intervals import eigenvalues as eigenvalues
from dpcov.analysis.intervals import explained_variance as explained_variance
from dpcov.analysis.intervals import intervals as intervals
from dpcov.analysis.intervals import several_intervals as several_intervals
from dpcov.analysis.mediation import mediation as mediation
from dpcov.analysis.multiple_correlation import multiple_correlation as multiple_correlation
from dpcov.analysis.noise_warnings import noise_warnings as noise_warnings
from dpcov.analysis.ols import ols as ols
from dpcov.analysis.partial_correlation import partial_correlation as partial_correlation
from dpcov.analysis.pca import pca as pca
from dpcov.analysis.penalty import ridge_alpha as ridge_alpha
from dpcov.analysis.precision import precision as precision
from dpcov.analysis.precision import precision_alpha as precision_alpha
from dpcov.analysis.ridge import ridge as ridge
from dpcov.analysis.ridge import ridge_error_bound as ridge_error_bound
from dpcov.analysis.ridge import ridge_path as ridge_path
from dpcov.analysis.standardized_coefficients import standardized_coefficients as standardized_coefficients
from dpcov.analysis.synthetic import sample as sample
from dpcov.analysis.table1 import table1 as table1
from dpcov.analysis.variance_inflation import variance_inflation as variance_inflation
from dpcov.api import release as release
from dpcov.api.grouped import release_by as release_by
from dpcov.api.plans.simulated import Assumptions as Assumptions
from dpcov.api.ledger import Ledger as Ledger
from dpcov.api.plans import plan as plan
from dpcov.api.plans.half_widths import plan_half_width as plan_half_width
from dpcov.core.privacy import ApproxDP as ApproxDP
from dpcov.core.privacy import Guarantee as Guarantee
from dpcov.core.privacy import Neighbors as Neighbors
from dpcov.core.privacy import PureDP as PureDP
from dpcov.core.privacy import Unit as Unit
from dpcov.core.privacy import ZCDP as ZCDP
from dpcov.releases import Release as Release
from dpcov.releases import load as load
from dpcov.rows.schema import Schema as Schema
from dpcov import plot as plot
from dpcov import report as report
from dpcov import signatures as signatures
from collections.abc import Sequence
from dpcov.analysis.normal_equations import Penalty
import numpy as np

@deprecated("Guess is now Assumptions. Version 0.5 removes the name Guess.")
class Guess(Assumptions): ...

@deprecated("choose_alpha is now ridge_alpha. Version 0.5 removes the name choose_alpha.")
def choose_alpha(release: 'Release', target: 'str', features: 'Sequence[str] | None' = None, *, intercept: 'bool' = True, penalty: 'Penalty' = 'encoded', alphas: 'Sequence[float] | None' = None, generator: 'np.random.Generator | None' = None) -> 'float': ...

@deprecated("drowned is now noise_warnings. Version 0.5 removes the name drowned.")
def drowned(release: 'Release') -> 'tuple[str, ...]': ...
