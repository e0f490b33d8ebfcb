# Printed form and accessors of a release.

print.dpcov_release <- function(x, ...) {
  shown <- encodeString(x$columns)
  cat("Release with differential privacy, ", length(shown), " columns\n", sep = "")
  cat(strwrap(paste0("Guarantee: ", x$guarantee), exdent = 2), sep = "\n")
  if (!is.null(x$count)) cat("Rows: ", with_error(x), "\n", sep = "")
  cat(strwrap(paste0("Columns: ", paste(shown, collapse = ", ")), exdent = 2), sep = "\n")
  for (caution in x$cautions) cat(strwrap(paste0("Caution: ", caution), exdent = 2), sep = "\n")
  invisible(x)
}

with_error <- function(x) {
  error <- x$count_error
  count <- format(round(x$count), big.mark = ",")
  if (is.null(error) || error == 0) return(count)
  paste0("about ", count, ", standard error ", signif(error, 2))
}

summary.dpcov_release <- function(object, ...) {
  variances <- diag(object$covariance)
  table <- data.frame(row.names = object$columns)
  if (!is.null(object$mean)) {
    ends <- object$intervals$mean
    errors <- sqrt(diag(object$error_covariance$total))[seq_along(object$columns)]
    table <- cbind(table, mean = object$mean, error = errors, low = ends$low, high = ends$high)
  }
  table$sd <- sqrt(pmax(variances, 0))
  structure(list(release = object, columns = table), class = "summary.dpcov_release")
}

print.summary.dpcov_release <- function(x, digits = 4, ...) {
  print(x$release)
  cat("\nMeans with standard errors and ", x$release$intervals$level * 100,
      "% intervals, and standard deviations\n", sep = "")
  table <- format(x$columns, digits = digits)
  rownames(table) <- encodeString(rownames(x$columns))
  print(table, quote = FALSE)
  invisible(x)
}

coef.dpcov_release <- function(object, ...) {
  lower <- lower.tri(object$covariance, diag = TRUE)
  pairs <- structure(object$covariance[lower], names = pair_names(object$columns))
  c(object$mean, pairs)
}

vcov.dpcov_release <- function(object, sampling = TRUE, ...) {
  object$error_covariance[[if (sampling) "total" else "privacy"]]
}

confint.dpcov_release <- function(object, parm, level = object$intervals$level,
                                  correlation = FALSE, ...) {
  if (level != object$intervals$level) {
    fail(
      "The export contains intervals of level ", object$intervals$level, ". ",
      "Run `dpcov export FILE --for r --level ", level, "` and read the folder that it writes."
    )
  }
  ends <- object$intervals
  entries <- if (correlation) ends$correlation else ends$covariance
  lower <- lower.tri(object$covariance, diag = !correlation)
  found <- cbind(entries$low[lower], entries$high[lower])
  rownames(found) <- pair_names(object$columns, diag = !correlation)
  if (!correlation) found <- rbind(cbind(ends$mean$low, ends$mean$high), found)
  tails <- c(1 - level, 1 + level) / 2
  colnames(found) <- paste(format(100 * tails, trim = TRUE, digits = 3), "%")
  if (missing(parm)) found else found[parm, , drop = FALSE]
}
