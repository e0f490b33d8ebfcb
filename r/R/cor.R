# stats::cor is not generic, so the package has a generic function of the same name.

cor <- function(x, ...) UseMethod("cor")

cor.default <- function(x, ...) stats::cor(x, ...)

cor.dpcov_release <- function(x, ...) {
  require_figures(x$correlation, x, "correlations")
  x$correlation
}
