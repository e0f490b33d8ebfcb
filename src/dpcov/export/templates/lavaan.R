# Fit a structural equation model to a private release with lavaan (at least 0.6).
# Run this script in its folder: Rscript lavaan.R
#
# The standard errors and the test include the privacy noise, because the argument NACOV passes the
# error covariance to lavaan. lavaan's fit indices do not include the noise.
library(lavaan)

read <- function(file, ...) read.csv(file, comment.char = "#", check.names = FALSE, ...)
columns <- read("columns.csv")
means <- setNames(columns$mean, columns$variable)
covariance <- as.matrix(read("covariance.csv", row.names = 1))
errors <- as.matrix(read("error_covariance.csv", row.names = 1))
rows <- columns$rows[1]

# Names of the means and covariances of some variables, in lavaan's order.
figures <- function(variables) {
  pairs <- outer(variables, variables, function(i, j) {
    first <- match(i, columns$variable) <= match(j, columns$variable)
    paste0(ifelse(first, i, j), "~~", ifelse(first, j, i))
  })
  c(variables, pairs[lower.tri(pairs, diag = TRUE)])
}

# lavaan finds no standard errors if standard deviations differ too much. A variable with a large or
# small standard deviation is therefore in other units: its values are divided by `unit`.
columns$unit <- local({
  size <- unname(sqrt(pmax(diag(covariance), 0)))
  ifelse(size > 30 | (size > 0 & size < 0.1), 10^round(log10(size)), 1)
})
means <- means / columns$unit
covariance <- covariance / outer(columns$unit, columns$unit)
errors <- local({
  both <- outer(columns$unit, columns$unit)
  unit <- setNames(c(columns$unit, both[lower.tri(both, diag = TRUE)]), figures(columns$variable))
  errors / outer(unit[rownames(errors)], unit[colnames(errors)])
})

private_sem <- function(model, ...) {
  variables <- lavNames(lavaanify(model), "ov")
  at <- figures(variables)
  fit <- sem(
    model,
    sample.cov = covariance[variables, variables],
    sample.mean = means[variables],
    sample.nobs = rows,
    sample.cov.rescale = FALSE, # the covariances have the divisor n
    NACOV = rows * errors[at, at],
    estimator = "ML", se = "robust.sem", test = "satorra.bentler",
    meanstructure = TRUE,
    fixed.x = FALSE, # the predictors have errors, too
    ...
  )
  stopifnot(identical(lavNames(fit, "ov"), variables)) # NACOV must have lavaan's order
  fit
}

# Replace this model. `columns` lists the variables with their names in the release. A factor model
# is, for example: model <- "f =~ x1 + x2 + x3".
numbers <- head(columns$variable[!columns$kind %in% c("level", "missing")], 6)
model <- paste(tail(numbers, 1), "~", paste(head(numbers, -1), collapse = " + "))
fit <- private_sem(model)
print(columns[, c("variable", "name", "kind", "unit")])
summary(fit, standardized = TRUE)
