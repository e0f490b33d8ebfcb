# Fit models to many releases: `benchmarks/lavaan.py` runs this script in its folder of moments.
#
# moments.bin holds, for each release, the means, the lower triangle of the covariance matrix column
# by column, the number of rows and the error covariance. fits.csv gets one line for each release.
suppressPackageStartupMessages(library(lavaan))

items <- paste0("x", 1:9)
k <- 9 + 45
three <- "f1 =~ x1 + x2 + x3
f2 =~ x4 + x5 + x6
f3 =~ x7 + x8 + x9"
two <- "f1 =~ x1 + x2 + x3 + x4 + x5 + x6
f2 =~ x7 + x8 + x9"

fitted <- function(model, means, covariance, rows, errors = NULL) {
  options <- list(
    model = model, sample.cov = covariance, sample.mean = means, sample.nobs = rows,
    sample.cov.rescale = FALSE, meanstructure = TRUE, std.lv = TRUE
  )
  if (!is.null(errors)) {
    options <- c(options, list(
      NACOV = rows * errors, estimator = "ML", se = "robust.sem", test = "satorra.bentler"
    ))
  }
  tryCatch(suppressWarnings(do.call("cfa", options)), error = function(e) NULL)
}

p_value <- function(fit, name) {
  if (is.null(fit) || !lavInspect(fit, "converged")) return(NA)
  tryCatch(unname(fitMeasures(fit, name)), error = function(e) NA)
}

loadings <- function(fit) {
  if (is.null(fit) || !lavInspect(fit, "converged")) return(rep(NA, 18))
  found <- parTable(fit)
  at <- found$op == "=~"
  c(found$est[at], found$se[at])
}

connection <- file("moments.bin", "rb")
size <- k + 1 + k * k
lines <- list()
repeat {
  numbers <- readBin(connection, "double", size)
  if (length(numbers) < size) break
  means <- setNames(numbers[1:9], items)
  covariance <- matrix(0, 9, 9, dimnames = list(items, items))
  covariance[lower.tri(covariance, diag = TRUE)] <- numbers[10:k]
  covariance <- covariance + t(covariance) - diag(diag(covariance))
  rows <- numbers[k + 1]
  errors <- matrix(numbers[-(1:(k + 1))], k, k)
  with <- fitted(three, means, covariance, rows, errors)
  without <- fitted(three, means, covariance, rows)
  other <- fitted(two, means, covariance, rows, errors)
  lines[[length(lines) + 1]] <- c(
    loadings(with), loadings(without), p_value(with, "pvalue.scaled"), p_value(without, "pvalue"),
    p_value(other, "pvalue.scaled")
  )
}
close(connection)
write.table(do.call(rbind, lines), "fits.csv", sep = ",", row.names = FALSE, col.names = FALSE)
