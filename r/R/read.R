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
  content$cautions <- as.character(content$cautions)
  content$dates <- as.character(content$dates)
  content$mean <- vector_of(content$mean, columns, file)
  content$covariance <- matrix_of(content$covariance, pairs, file)
  content$correlation <- matrix_of(content$correlation, pairs, file)
  content$error_covariance <- errors_of(content, columns, file)
  ends <- content$intervals
  for (end in c("low", "high")) {
    ends$mean[[end]] <- vector_of(ends$mean[[end]], columns, file)
    ends$covariance[[end]] <- matrix_of(ends$covariance[[end]], pairs, file)
    ends$correlation[[end]] <- matrix_of(ends$correlation[[end]], pairs, file)
  }
  content$intervals <- ends
  structure(content, class = "dpcov_release")
}

# The error covariances, with names. Their order is the order of coef().
errors_of <- function(content, columns, file) {
  names <- c(if (!is.null(content$mean)) columns, pair_names(columns))
  errors <- content$error_covariance
  if (!identical(as.character(errors$names), names)) damaged(file)
  both <- list(names, names)
  lapply(errors[c("privacy", "total")], matrix_of, both, file)
}

# Names of the entries of vech(covariance), as lavaan writes and orders them.
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
  fail("The file ", sQuote(file, FALSE), " is damaged: its names and figures do not match. ", how_to_export())
}
