library(jsonlite)

symmetric <- function(triangle, d) {    # from a lower triangle, row by row
  S <- matrix(0, d, d)
  S[upper.tri(S, diag = TRUE)] <- as.numeric(triangle)
  S[lower.tri(S)] <- t(S)[lower.tri(S)]
  S
}

step_of <- function(lattice) {          # files of format 1 have no step
  if (is.null(lattice$step)) lattice$radius / lattice$units_per_radius else lattice$step
}

intercept_of <- function(release) {
  release$lattice$intercept_units * step_of(release$lattice)
}

second_moment <- function(release) {    # of the encoded rows (z, t)
  lattice <- release$lattice
  p <- length(lattice$features)
  d <- p + (lattice$intercept_units > 0)
  if (!is.null(release$denoised)) return(symmetric(release$denoised, d))
  S <- symmetric(release$published, d) * 2^release$shift * step_of(lattice)^2
  if (is.null(release$linear_map)) return(S)
  back <- diag(d)                       # published belongs to rows (A (z - center), t)
  back[1:p, 1:p] <- solve(matrix(release$linear_map, p, byrow = TRUE))
  if (!is.null(release$center)) back[1:p, d] <- release$center / intercept_of(release)
  S <- back %*% S %*% t(back)
  (S + t(S)) / 2
}

rational <- function(text) {            # a fraction such as "3/4", of any length
  parts <- strsplit(as.character(text), "/")[[1]]
  parts <- as.numeric(substr(parts, 1, nchar(parts) - max(0, nchar(parts) - 300)))
  if (length(parts) == 2) parts[1] / parts[2] else parts
}

noise_variance <- function(law) {       # of a count, or of a diagonal entry
  d <- law$dimension
  switch(law$law,
    "discrete-laplace" = 2 * rational(law$scale)^2,
    "discrete-gaussian" = , "discrete-gaussian-orthogonal" = rational(law$variance),
    "discrete-laplace-entrywise" = 2 * rational(law$diagonal)^2,
    "wishart-difference" = 4 * (d + 1) * law$scale^2,
    "centered-wishart" = 2 * law$degrees * law$scale^2,
    "nuclear-laplace" = 2 * law$scale^2 / (d * (d + 1)) *
      (pi^2 / 24 * d^3 + 0.915965594177219 * d^2 + 0.70619 * d - 0.0334),
    "nuclear-laplace-square" = law$scale^2 / d^2 *
      (pi^2 / 6 * d^3 + 0.59216 * d^2 - 0.29316 * d + 0.0561),
    stop("the R code does not know this noise; use dpcov correlation --out")
  )
}

units_per_row <- function(schema) {     # integer that represents one row in the count
  if (is.null(schema$weight)) return(1)
  columns <- length(schema$columns) + length(schema$derived) -
    sum(vapply(schema$columns, function(one) one$kind == "ignored", NA))
  radius <- min(sqrt(columns), schema$radius)
  wanted <- ceiling(schema$intercept * ceiling(radius / (min(1, 2^ceiling(log2(radius))) / 2^20)))
  ceiling(wanted / max(1, ceiling(wanted / 2^20)))^2
}

best_count <- function(release) {       # NULL if only the matrix contains the count
  if (!is.null(release$unit_count) && is.null(release$schema$unit) &&
      is.null(release$schema$weight)) return(release$unit_count)
  if (is.null(release$published_count)) return(NULL)
  unit <- units_per_row(release$schema)
  alone <- release$published_count / unit
  if (is.null(release$noise) || is.null(release$published)) return(alone)
  corner <- tail(release$published, 1) * 2^release$shift / release$lattice$intercept_units^2
  ratio <- noise_variance(release$noise) / release$lattice$intercept_units^4 /
    (noise_variance(release$count_noise) / unit^2)
  corner / (1 + ratio) + alone * ratio / (1 + ratio)
}

count <- function(release) {            # private estimate of the number of rows
  best <- best_count(release)
  if (is.null(best)) {
    if (!is.null(release$published)) release$denoised <- NULL
    best <- tail(c(second_moment(release)), 1) / intercept_of(release)^2
  }
  max(0, best)
}

with_count <- function(release, S) {
  best <- best_count(release)
  if (is.null(best)) return(S)
  t <- intercept_of(release)
  along <- c(if (is.null(release$center)) rep(0, nrow(S) - 1) else release$center / t, 1)
  S + (best * t^2 - S[nrow(S), nrow(S)]) * outer(along, along)
}

marks <- function(release) {            # features that mark missing cells (missing = "pairwise")
  features <- release$lattice$features
  vapply(seq_along(features), function(j) {
    name <- sub("=(missing)", "", features[j], fixed = TRUE)
    if (j == 1 || name == features[j] || features[j - 1] != name) return(FALSE)
    column <- release$schema$columns[[name]]
    is.null(column) || identical(column$missing, "pairwise")
  }, NA)
}

least_rows <- function(release, gaps) { # smallest number of rows above the noise level
  if (is.null(release$noise)) return(1)
  spreads <- 1 / intercept_of(release)^2
  if (!is.null(release$linear_map)) {
    p <- length(release$lattice$features)
    back <- solve(matrix(release$linear_map, p, byrow = TRUE))
    spreads <- c(spreads, rowSums(back[gaps, , drop = FALSE]^2))
  }
  deviation <- sqrt(noise_variance(release$noise))
  max(1, 5 * deviation * step_of(release$lattice)^2 * max(spreads))
}

completed <- function(release, S) {     # each pair of columns from its own rows
  gap <- which(marks(release))
  if (length(gap) == 0) return(S)
  S <- with_count(release, S)
  t <- intercept_of(release)
  d <- nrow(S)
  at <- setdiff(seq_len(d - 1), gap)
  p <- length(at)
  n <- S[d, d] / t^2
  mark <- match(at + 1, gap)            # gap[mark] marks the variable, or is NA
  mark <- gap[mark]
  has <- !is.na(mark)
  both <- matrix(0, p, p)
  both[has, has] <- S[mark[has], mark[has]]
  missing <- rep(0, p)
  missing[has] <- (diag(S)[mark[has]] + 2 * t * S[mark[has], d]) / (1 + 2 * t^2)
  rows <- n - outer(missing, missing, "+") + both
  diag(rows) <- n - missing
  sums <- matrix(S[at, d] / t, p, p)
  sums[, has] <- sums[, has] - S[at, mark[has]]
  diag(sums) <- S[at, d] / t
  least <- least_rows(release, gap)
  few <- diag(rows) < least
  own <- pmax(diag(rows), least)
  rows <- pmax(rows, 0.1 * outer(own, own) / max(n, 1))
  diag(rows) <- own
  means <- diag(sums) / own
  covariance <- (S[at, at] - sums * t(sums) / rows) / rows
  covariance[few, ] <- covariance[, few] <- 0
  whole <- matrix(0, p + 1, p + 1)
  whole[1:p, 1:p] <- n * (covariance + outer(means, means))
  whole[1:p, p + 1] <- whole[p + 1, 1:p] <- t * n * means
  whole[p + 1, p + 1] <- n * t^2
  whole
}

proper <- function(covariance) {        # nearby valid covariance, if pairs use different rows
  flat <- diag(covariance) <= 0
  roots <- sqrt(ifelse(flat, 1, diag(covariance)))
  found <- pmax(pmin(covariance / outer(roots, roots), 1), -1)
  found[flat, ] <- found[, flat] <- 0
  diag(found) <- 1
  spectrum <- eigen(found, symmetric = TRUE)
  if (min(spectrum$values) < 0) {
    root <- spectrum$vectors %*% diag(sqrt(pmax(spectrum$values, 0)), length(flat))
    root <- root / sqrt(rowSums(root^2))
    found <- root %*% t(root)
  }
  roots <- ifelse(flat, 0, pmin(roots, 1))
  found * outer(roots, roots)
}

correlations <- function(release) {
  if (release$lattice$intercept_units == 0) stop("released without an intercept: no means")
  gap <- marks(release)
  names <- release$lattice$features[!gap]
  p <- length(names)
  S <- completed(release, second_moment(release))
  found <- diag(p)
  if (S[p + 1, p + 1] > 0) {
    centred <- S[1:p, 1:p, drop = FALSE] - outer(S[1:p, p + 1], S[1:p, p + 1]) / S[p + 1, p + 1]
    nothing <- abs(diag(centred)) <= 1e-13 * diag(S)[1:p]
    centred[nothing, ] <- centred[, nothing] <- 0
    rows <- max(count(release), 1)
    if (!is.null(release$denoised) && !any(gap)) rows <- max(rows, diag(centred))
    covariance <- centred / rows
    if (!is.null(release$denoised) && any(gap)) covariance <- proper(covariance)
    flat <- diag(covariance) <= 1e-12   # noise can make a variance negative
    roots <- sqrt(ifelse(flat, 1, diag(covariance)))
    found <- covariance / outer(roots, roots)
    found[flat, ] <- found[, flat] <- 0
    diag(found) <- 1
  }
  dimnames(found) <- list(names, names)
  pmax(pmin(found, 1), -1)
}
