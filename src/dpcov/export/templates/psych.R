# Factor analysis of a private release with psych.
# Run this script in its folder: Rscript psych.R
#
# psych cannot use the error covariance, so its own tests, fit indices and intervals leave out the
# privacy noise. This script computes standard errors that include the noise (delta method). It
# changes the means and covariances slightly, in the directions of their errors. After each change,
# it repeats the analysis.
library(psych)

read <- function(file, ...) read.csv(file, comment.char = "#", check.names = FALSE, ...)
columns <- read("columns.csv")
means <- setNames(columns$mean, columns$variable)
covariance <- as.matrix(read("covariance.csv", row.names = 1))
errors <- as.matrix(read("error_covariance.csv", row.names = 1))
rows <- columns$rows[1]

# Replace the variables, the number of factors and the rotation.
items <- head(columns$variable[!columns$kind %in% c("level", "missing")], 6)
factors <- 1
analysis <- function(means, covariance) {
  fa(cov2cor(covariance), nfactors = factors, n.obs = rows, rotate = "oblimin")
}

items <- columns$variable[columns$variable %in% items] # in the order of the errors
means <- means[items]
covariance <- covariance[items, items]
pairs <- outer(items, items, function(i, j) paste0(j, "~~", i))
at <- c(items, pairs[lower.tri(pairs, diag = TRUE)])
errors <- errors[at, at]

# Standard errors of a function of the means and the covariance matrix (delta method).
standard_errors <- function(statistic, step = 0.1) {
  scale <- sqrt(pmax(diag(errors), .Machine$double.xmin))
  found <- eigen(errors / outer(scale, scale), symmetric = TRUE)
  moved <- function(direction) {
    p <- length(means)
    change <- matrix(0, p, p)
    change[lower.tri(change, diag = TRUE)] <- direction[-seq_len(p)]
    change <- change + t(change) - diag(diag(change), p)
    statistic(means + direction[seq_len(p)], covariance + change)
  }
  squares <- 0
  for (j in which(found$values > 0)) {
    direction <- step * sqrt(found$values[j]) * found$vectors[, j] * scale
    squares <- squares + ((moved(direction) - moved(-direction)) / (2 * step))^2
  }
  sqrt(squares)
}

fit <- analysis(means, covariance)
first <- unclass(fit$loadings)
# The signs and the order of factors are arbitrary. This function repeats the analysis and gives the
# factors the signs and the order of the first analysis.
aligned <- function(means, covariance) {
  found <- unclass(suppressWarnings(analysis(means, covariance))$loadings)
  products <- crossprod(found, first)
  order <- apply(abs(products), 2, which.max)
  sweep(found[, order, drop = FALSE], 2, sign(products[cbind(order, seq_len(factors))]), "*")
}

print(columns[, c("variable", "name", "kind")])
print(round(cbind(loading = first, "standard error" = standard_errors(aligned)), 3))
print(fit$uniquenesses)
