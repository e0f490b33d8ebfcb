"""Factor analysis with three factors: psych on the release, compared with psych on the table.

psych cannot use the error covariance of the release. The exported script repeats the analysis after
small changes of the covariances, and so computes standard errors that include the privacy noise.
"""

from __future__ import annotations

from side_by_side import in_r, questionnaire, release_of_questionnaire, show

MODEL = {
    "items <- head": 'items <- paste0("x", 1:9)',
    "factors <-": "factors <- 3",
    "  fa(": '  fa(cov2cor(covariance), nfactors = factors, n.obs = rows, rotate = "varimax")',
}
CODE = """
deviations <- standard_errors(aligned)
people <- read.csv("table.csv")[items]
table <- aligned(colMeans(people), cov(people))
main <- cbind(seq_along(items), max.col(abs(first)))
sides <- c(-1.96, 0, 1.96)
ends <- t(apply(outer(deviations[main], sides) + first[main], 1, sort))
found <- data.frame(items, first[main], ends[, 1], ends[, 3], table[main])
write.csv(found, "rows.csv", row.names = FALSE)
"""

table = questionnaire()
rows = in_r(release_of_questionnaire(table), table, "psych", MODEL, CODE)
show("Largest loading of each item, after a varimax rotation", "psych", rows)
