# Printed form and accessors of a release.

print.dpcov_release <- function(x, ...) {
  paragraph <- function(...) cat(strwrap(encodeString(paste0(...)), exdent = 2), sep = "\n")
  cat("Release with differential privacy, ", length(x$columns), " columns\n", sep = "")
  paragraph("Guarantee: ", x$guarantee)
  if (!is.null(x$count)) paragraph("Rows: ", with_error(x))
  paragraph("Columns: ", paste(x$columns, collapse = ", "))
  for (caution in x$cautions) paragraph("Caution: ", caution)
  invisible(x)
}

with_error <- function(x) {
  error <- x$count_error
  count <- format(round(x$count), big.mark = ",")
  if (is.null(error) || error == 0) return(count)
  paste0("about ", count, ", standard error ", signif(error, 2))
}

summary.dpcov_release <- function(object, ...) {
  require_figures(object$mean, object, "means")
  places <- seq_along(object$columns)
  errors <- if (!is.null(object$error_covariance)) sqrt(diag(vcov(object))[places])
  ends <- object$intervals$mean
  found <- list(mean = object$mean, error = errors, low = ends$low, high = ends$high)
  found$sd <- sqrt(object$variance)
  columns <- data.frame(Filter(Negate(is.null), found), row.names = object$columns)
  structure(list(release = object, columns = columns), class = "summary.dpcov_release")
}

print.summary.dpcov_release <- function(x, digits = 4, ...) {
  release <- x$release
  print(release)
  level <- release$intervals$level
  cat(
    "\nMeans", if (!is.null(level)) paste0(" with ", 100 * level, "% intervals"),
    ", and standard deviations\n", sep = ""
  )
  shown <- as.matrix(format(x$columns, digits = digits))
  for (name in intersect(c("mean", "low", "high"), colnames(shown))) {
    for (date in release$dates) {
      at <- match(date, release$columns)
      shown[at, name] <- as_date(x$columns[at, name], release$units[[date]])
    }
  }
  print(shown, quote = FALSE, right = TRUE)
  invisible(x)
}

as_date <- function(value, unit) {
  if (startsWith(unit, "days")) value <- 86400 * value
  moment <- as.POSIXct(value, origin = "1970-01-01", tz = "UTC")
  format(moment, if (startsWith(unit, "days")) "%Y-%m-%d" else "%Y-%m-%d %H:%M:%S")
}

coef.dpcov_release <- function(object, ...) {
  require_figures(object$mean, object, "means")
  c(object$mean, below(object$covariance))
}

vcov.dpcov_release <- function(object, sampling = TRUE, ...) {
  require_figures(object$error_covariance, object, "error covariance")
  object$error_covariance[[if (sampling) "total" else "privacy"]]
}

confint.dpcov_release <- function(object, parm, level = object$intervals$level,
                                  correlation = FALSE, ...) {
  ends <- object$intervals
  require_figures(ends$level, object, "intervals")
  if (level != ends$level) {
    fail(
      "The export contains intervals of level ", ends$level, ". ",
      "In Python, dpcov.intervals(release, \"covariance\", level=", level, ") computes others."
    )
  }
  if (correlation) require_figures(object$correlation, object, "correlations")
  figures <- function(end) {
    if (correlation) return(below(ends$correlation[[end]], diag = FALSE))
    c(ends$mean[[end]], below(ends$covariance[[end]]))
  }
  found <- cbind(figures("low"), figures("high"))
  tails <- c(1 - level, 1 + level) / 2
  colnames(found) <- paste(format(100 * tails, trim = TRUE, digits = 3), "%")
  if (missing(parm)) found else found[parm, , drop = FALSE]
}

# Return the lower triangle of a symmetric matrix as a vector with names.
below <- function(matrix, diag = TRUE) {
  if (is.null(matrix)) return(NULL)
  structure(matrix[lower.tri(matrix, diag)], names = pair_names(rownames(matrix), diag))
}
