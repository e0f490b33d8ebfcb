# Arguments for lavaan.

as_lavaan <- function(release, model = NULL, unit = NULL) {
  if (!inherits(release, "dpcov_release")) {
    fail("Call as_lavaan() with the value of read_release().")
  }
  require_figures(release$error_covariance, release, "error covariance")
  names <- make.names(release$columns, unique = TRUE) # lavaan reads `ward=general` as a formula
  chosen <- columns_of(model, names)
  at <- match(chosen, names)
  flat <- chosen[diag(release$covariance)[at] <= 0]
  if (length(flat) > 0) {
    fail(
      "The noise hides the variance of ", paste(flat, collapse = ", "), ". ",
      "Leave these columns out of the model."
    )
  }
  rows <- max(round(release$count), 1)
  divisor <- divisors(chosen, unit)
  warn_of_sizes(structure(sqrt(diag(release$covariance)[at]) / divisor, names = chosen))
  both <- outer(divisor, divisor)
  of_figures <- unname(c(divisor, both[lower.tri(both, diag = TRUE)]))
  arguments <- list(
    sample.cov = matrix(release$covariance[at, at] / both, length(at), dimnames = list(chosen, chosen)),
    sample.mean = structure(release$mean[at] / divisor, names = chosen),
    sample.nobs = rows,
    sample.cov.rescale = FALSE, # the covariances have the divisor n
    NACOV = rows * errors_for(release, at) / outer(of_figures, of_figures),
    meanstructure = TRUE,
    fixed.x = FALSE, # the predictors have errors, too
    se = "robust.sem", test = "satorra.bentler"
  )
  c(if (!is.null(model)) list(model = model), arguments)
}

# Return the divisor of each column: the stated unit, or 1.
divisors <- function(chosen, unit) {
  absent <- setdiff(names(unit), chosen)
  if (length(unit) != length(names(unit)) || length(absent) > 0 || !all(unit > 0 & unit < Inf)) {
    fail("State unit as positive numbers with names of columns, such as c(age = 10).")
  }
  found <- structure(rep(1, length(chosen)), names = chosen)
  found[names(unit)] <- unit
  found
}

# Warn if lavaan may fail to invert its matrices. Source of the limits: it found standard errors for
# standard deviations from 0.046 to 87 in one model, and none for 0.0046 or 869.
warn_of_sizes <- function(sizes) {
  odd <- sizes[sizes > 100 | sizes < 0.04]
  if (length(odd) > 0) {
    warning(
      "lavaan may find no standard errors, because standard deviations differ too much. State ",
      "units, such as unit = c(",
      paste(names(odd), "=", format(10^round(log10(odd)), scientific = FALSE, trim = TRUE), collapse = ", "),
      "). lavaan then receives the values divided by these units.",
      call. = FALSE
    )
  }
}

# Return the columns in the order of the model. lavaan needs NACOV in this order and ignores names.
columns_of <- function(model, names) {
  if (is.null(model)) return(names)
  if (!requireNamespace("lavaan", quietly = TRUE)) {
    fail("To read the model, as_lavaan() needs lavaan. Run install.packages(\"lavaan\").")
  }
  chosen <- lavaan::lavNames(model, "ov")
  absent <- setdiff(chosen, names)
  if (length(absent) > 0) {
    fail(
      "The release does not contain ", paste(absent, collapse = ", "), ". ",
      "It contains ", paste(names, collapse = ", "), "."
    )
  }
  chosen
}

# Return the error covariance of the columns at these positions, in lavaan's order: first the means,
# then the lower triangle of the covariances, column by column.
errors_for <- function(release, at) {
  count <- length(release$columns)
  place <- matrix(0L, count, count)
  lower <- lower.tri(place, diag = TRUE)
  place[lower] <- count + seq_len(sum(lower))
  place[upper.tri(place)] <- t(place)[upper.tri(place)]
  chosen <- place[at, at, drop = FALSE]
  order <- c(at, chosen[lower.tri(chosen, diag = TRUE)])
  unname(release$error_covariance$total[order, order])
}
