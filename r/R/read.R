# Reading of the folder that `dpcov export FILE --for r` writes.

FORMAT <- "dpcov export for R"
VERSION <- 1L # of the format
FILE <- "estimate.json"

read_release <- function(path) {
  file <- if (dir.exists(path)) file.path(path, FILE) else path
  if (!file.exists(file)) {
    fail("The file ", sQuote(file, FALSE), " does not exist. ", how_to_export())
  }
  content <- tryCatch(fromJSON(file), error = function(e) {
    fail("The file ", sQuote(file, FALSE), " is not valid JSON. ", how_to_export())
  })
  require_export(content, file)
  release_of(content, file)
}

fail <- function(...) stop(..., call. = FALSE)

how_to_export <- function(file = "FILE") {
  if (!grepl("^[A-Za-z0-9_./-]+$", file)) file <- shQuote(file)
  paste0("Run `dpcov export ", file, " --for r` and read the folder that it writes.")
}

# Stop unless this is an export in a version that the package reads.
require_export <- function(content, file) {
  format <- if (is.list(content)) content$format
  if (is.character(format) && any(startsWith(format, "dpcov.release"))) {
    fail(
      "The file ", sQuote(file, FALSE), " is a release file, which contains no estimates. ",
      how_to_export(file)
    )
  }
  if (!identical(format, FORMAT)) {
    fail("The file ", sQuote(file, FALSE), " is not an export for R. ", how_to_export())
  }
  if (!identical(as.integer(content$version), VERSION)) {
    fail(
      "The file ", sQuote(file, FALSE), " has version ", content$version, " of the export, but ",
      "this package reads version ", VERSION, ". Install the R package of the same dpcov."
    )
  }
}

release_of <- function(content, file) {
  columns <- as.character(content$columns)
  pairs <- list(columns, columns)
  for (name in c("cautions", "dates")) content[[name]] <- as.character(content[[name]])
  for (name in c("mean", "variance")) {
    content[[name]] <- vector_of(content[[name]], columns, file)
    content$intervals[[name]] <- lapply(content$intervals[[name]], vector_of, columns, file)
  }
  for (name in c("covariance", "correlation")) {
    content[[name]] <- matrix_of(content[[name]], pairs, file)
    content$intervals[[name]] <- lapply(content$intervals[[name]], matrix_of, pairs, file)
  }
  content$error_covariance <- errors_of(content$error_covariance, columns, file)
  structure(content, class = "dpcov_release")
}

# Add names to both error covariances. Their rows have the order of coef().
errors_of <- function(errors, columns, file) {
  if (is.null(errors)) return(NULL)
  names <- c(columns, pair_names(columns))
  if (!identical(as.character(errors$names), names)) damaged(file)
  lapply(errors[c("privacy", "total")], matrix_of, list(names, names), file)
}

# Return lavaan's names of the covariances in the lower triangle, in lavaan's order.
pair_names <- function(columns, diag = TRUE) {
  pairs <- outer(columns, columns, function(row, column) paste0(column, "~~", row))
  pairs[lower.tri(pairs, diag)]
}

vector_of <- function(values, names, file) {
  if (is.null(values)) return(NULL)
  if (length(values) != length(names)) damaged(file)
  structure(as.numeric(values), names = names)
}

matrix_of <- function(values, names, file) {
  if (is.null(values)) return(NULL)
  if (!identical(dim(values), lengths(names))) damaged(file)
  matrix(as.numeric(values), nrow(values), dimnames = names)
}

damaged <- function(file) {
  fail(
    "The file ", sQuote(file, FALSE), " is damaged: its names and numbers do not match. ",
    how_to_export()
  )
}

# Stop with the reason that dpcov states if the release does not contain these estimates.
require_figures <- function(figures, release, what) {
  if (is.null(figures)) {
    reason <- c(release$not_released, release$cautions)
    fail("The export contains no ", what, ". ", if (length(reason) > 0) reason[1])
  }
}
