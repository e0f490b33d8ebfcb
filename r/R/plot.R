# Heat map of the correlations.

# Above this number of columns, the figures would overlap.
MAX_COLUMNS_WITH_FIGURES <- 25L

plot.dpcov_release <- function(x, digits = 2, ...) {
  correlation <- cor(x)
  count <- nrow(correlation)
  ends <- x$intervals$correlation
  clear <- ends$low > 0 | ends$high < 0 # the interval excludes zero
  diag(clear) <- TRUE
  width <- max(nchar(x$columns))
  kept <- par(mar = c(width / 2 + 2, width / 2 + 2, 3, 1))
  on.exit(par(kept))
  upside <- rev(seq_len(count))
  image(
    seq_len(count), seq_len(count), t(correlation[upside, , drop = FALSE]),
    zlim = c(-1, 1), col = hcl.colors(41, "Blue-Red 3"), axes = FALSE, xlab = "", ylab = "",
    main = "Private correlations", ...
  )
  axis(1, seq_len(count), x$columns, las = 2, tick = FALSE)
  axis(2, upside, x$columns, las = 1, tick = FALSE)
  label <- format(round(correlation, digits), nsmall = digits)
  label[!clear] <- "?" # the sign is not known
  if (count <= MAX_COLUMNS_WITH_FIGURES) {
    dark <- abs(correlation) > 0.6
    text(col(correlation), upside[row(correlation)], label, col = ifelse(dark, "white", "black"))
  }
  invisible(x)
}
