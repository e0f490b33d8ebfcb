# Arguments for lavaan.

as_lavaan <- function(release, model = NULL) {
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
  arguments <- list(
    sample.cov = matrix(release$covariance[at, at], length(at), dimnames = list(chosen, chosen)),
    sample.mean = structure(release$mean[at], names = chosen),
    sample.nobs = rows,
    sample.cov.rescale = FALSE, # the covariances have the divisor n
    NACOV = rows * errors_for(release, at),
    meanstructure = TRUE,
    fixed.x = FALSE, # the predictors have errors, too
    se = "robust.sem", test = "satorra.bentler"
  )
  c(if (!is.null(model)) list(model = model), arguments)
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
