# Heat map of the correlations.

# With more columns, the numbers in the map would overlap.
MAX_COLUMNS_WITH_FIGURES <- 25L
MAX_CHARACTERS <- 24L # longest name on an axis

shortened <- function(names) {
  long <- nchar(names) > MAX_CHARACTERS
  ifelse(long, paste0(substr(names, 1, MAX_CHARACTERS - 3), "..."), names)
}

plot.dpcov_release <- function(x, digits = 2, ...) {
  correlation <- cor(x)
  places <- seq_len(nrow(correlation))
  names <- shortened(x$columns)
  margin <- max(nchar(names)) / 2 + 2
  kept <- par(mar = c(margin, margin, 3, 1))
  on.exit(par(kept))
  image(
    places, places, t(correlation[rev(places), , drop = FALSE]),
    zlim = c(-1, 1), col = hcl.colors(41, "Blue-Red 3"), axes = FALSE, xlab = "", ylab = "",
    main = if (x$status == "private") "Private correlations" else "Correlations (NOT PRIVATE)", ...
  )
  axis(1, places, names, las = 2, tick = FALSE)
  axis(2, rev(places), names, las = 1, tick = FALSE)
  if (length(places) <= MAX_COLUMNS_WITH_FIGURES) {
    dark <- abs(correlation) > 0.75
    label <- figures_of(correlation, x$intervals$correlation, digits)
    ink <- ifelse(dark, "white", "black")
    text(col(correlation), rev(places)[row(correlation)], label, col = ink)
  }
  invisible(x)
}

# Return the labels of the map: a question mark replaces each correlation whose sign is not known.
figures_of <- function(correlation, ends, digits) {
  label <- format(round(correlation, digits), nsmall = digits)
  unclear <- if (!is.null(ends)) ends$low <= 0 & ends$high >= 0
  label[unclear & row(label) != col(label)] <- "?"
  label
}
