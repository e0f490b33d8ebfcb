# Tests without a test framework: each stopifnot() states one claim.

library(dpcov)
folder <- system.file("extdata", "survey", package = "dpcov")
survey <- read_release(folder)

# The error message of an expression.
message_of <- function(expression) tryCatch({ expression; "" }, error = conditionMessage)

# A copy of the export with other entries.
changed <- function(...) {
  content <- jsonlite::fromJSON(file.path(folder, "estimate.json"), simplifyVector = FALSE)
  content[...names()] <- list(...)
  file <- tempfile(fileext = ".json")
  writeLines(jsonlite::toJSON(content, auto_unbox = TRUE, digits = NA, null = "null"), file)
  file
}

# The estimates, their errors and their intervals have the same names.
stopifnot(identical(names(coef(survey)), rownames(vcov(survey))))
stopifnot(identical(names(coef(survey)), rownames(confint(survey))))
stopifnot(coef(survey)[["glad~~walks"]] == survey$covariance["walks", "glad"])
stopifnot(confint(survey)[, 1] <= coef(survey), coef(survey) <= confint(survey)[, 2])
below <- lower.tri(cor(survey))
stopifnot(confint(survey, correlation = TRUE)[, 1] <= cor(survey)[below])
stopifnot(all.equal(stats::cov2cor(survey$covariance), cor(survey)))
stopifnot(diag(vcov(survey)) > diag(vcov(survey, sampling = FALSE)))

# The printed form contains the guarantee and each column.
printed <- paste(capture.output(print(summary(survey))), collapse = " ")
stopifnot(grepl("Guarantee", printed), sapply(survey$columns, grepl, printed, fixed = TRUE))

# For any other object, cor() returns the same result as stats::cor().
stopifnot(identical(cor(mtcars), stats::cor(mtcars)))
stopifnot(identical(
  cor(mtcars$mpg, mtcars$wt, method = "kendall"),
  stats::cor(mtcars$mpg, mtcars$wt, method = "kendall")
))

# read_release() refuses other files and shows the command to run.
raw <- file.path(tempdir(), "my visits.json")
writeLines('{"format": "dpcov.release/3", "status": "private"}', raw)
command <- paste("dpcov export", shQuote(raw), "--for r")
stopifnot(grepl(command, message_of(read_release(raw)), fixed = TRUE))
writeLines("{", raw)
stopifnot(grepl("not valid JSON", message_of(read_release(raw))))
stopifnot(grepl("does not exist", message_of(read_release("nothing"))))
stopifnot(grepl("not an export", message_of(read_release(changed(format = "another")))))
stopifnot(grepl("has version 2", message_of(read_release(changed(version = 2)))))
stopifnot(grepl("damaged", message_of(read_release(changed(mean = list(1, 2))))))
stopifnot(grepl("level=0.9", message_of(confint(survey, level = 0.9)), fixed = TRUE))

# as_lavaan() refuses a column whose variance the noise hides.
flat <- read_release(changed(covariance = matrix(0, 6, 6)))
stopifnot(grepl("hides the variance of calm, glad", message_of(as_lavaan(flat))))

# The map shortens long names.
long <- survey
long$columns[1] <- strrep("long ", 60)
grDevices::pdf(NULL)
plot(survey)
plot(long)
invisible(grDevices::dev.off())

# The interval of a single estimate is a matrix with one row.
stopifnot(identical(dim(confint(survey, 8)), c(1L, 2L)))

# If the release does not contain the estimates, the functions stop with dpcov's reason.
only <- list(correlation = NULL, covariance = NULL, error_covariance = NULL, not_released = "Why.")
means <- read_release(do.call(changed, only))
stopifnot(identical(names(coef(means)), survey$columns))
for (refused in c(cor, vcov, plot, as_lavaan)) {
  stopifnot(grepl("The export contains no .*Why[.]", message_of(refused(means))))
}
invisible(capture.output(print(summary(means))))

# lavaan gives the same fit in any order of the columns.
if (requireNamespace("lavaan", quietly = TRUE)) {
  suppressPackageStartupMessages(library(lavaan))
  tested <- function(model, arguments = as_lavaan(survey, model)) {
    fitMeasures(do.call("cfa", arguments), c("chisq.scaled", "df"))
  }
  forward <- "mood =~ calm + glad + rested\nbody =~ walks + climbs + lifts"
  backward <- "body =~ lifts + climbs + walks\nmood =~ rested + glad + calm"
  stopifnot(all.equal(tested(forward), tested(backward), tolerance = 1e-4))
  control <- c(list(model = backward), as_lavaan(survey)) # NACOV in the order of the release
  stopifnot(!isTRUE(all.equal(tested(forward), tested(backward, control), tolerance = 1e-4)))
  # With a unit, a column in other units has standard errors again.
  size <- 5000 / sqrt(survey$covariance[1, 1]) # a standard deviation of 5000
  large <- survey
  of_one <- c(size, rep(1, 5))
  both <- outer(of_one, of_one)
  factors <- c(of_one, both[lower.tri(both, diag = TRUE)])
  large$covariance <- survey$covariance * both
  large$mean <- survey$mean * of_one
  large$error_covariance$total <- survey$error_covariance$total * outer(factors, factors)
  model <- "calm ~ walks"
  slope <- function(arguments) {
    found <- parameterEstimates(suppressWarnings(do.call("sem", arguments)))
    unlist(found[found$op == "~", c("est", "se")])
  }
  warned <- tryCatch(as_lavaan(large, model), warning = conditionMessage)
  stopifnot(grepl("unit = c(calm = 10000)", warned, fixed = TRUE))
  own <- as_lavaan(large, model, unit = c(calm = size))
  stopifnot(all.equal(slope(own), slope(as_lavaan(survey, model)), tolerance = 1e-6))
  stopifnot(grepl("positive numbers", message_of(as_lavaan(survey, model, unit = c(none = 2)))))
  refused <- message_of(as_lavaan(survey, "mood =~ calm + glad + age"))
  stopifnot(grepl("does not contain age", refused))
}
