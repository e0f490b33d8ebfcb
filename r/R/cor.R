# stats::cor is not generic, so the package has a generic function of the same name.

cor <- function(x, ...) UseMethod("cor")

cor.default <- function(x, ...) stats::cor(x, ...)

cor.dpcov_release <- function(x, ...) {
  if (is.null(x$correlation)) {
    fail("The release has no means and so no correlations. Set `intercept` in the schema above 0.")
  }
  x$correlation
}
