"""Three-factor model (CFA): lavaan on the release, compared with lavaan on the table.

The exported script passes the error covariance of the release to lavaan, as the argument NACOV. The
standard errors and the test of lavaan therefore include the privacy noise.
"""

from __future__ import annotations

from side_by_side import in_r, questionnaire, release_of_questionnaire, show

MODEL = {"model <-": 'model <- "a =~ x1 + x2 + x3; b =~ x4 + x5 + x6; c =~ x7 + x8 + x9"'}
CODE = """
private <- standardizedSolution(fit)
table <- standardizedSolution(cfa(model, read.csv("table.csv"), meanstructure = TRUE))
key <- function(found) paste(found$lhs, found$op, found$rhs)
asked <- table$op == "=~" | (table$op == "~~" & table$lhs != table$rhs)
at <- match(key(table)[asked], key(private))
rows <- cbind(private[at, c("est.std", "ci.lower", "ci.upper")], table$est.std[asked])
write.csv(cbind(key(table)[asked], rows), "rows.csv", row.names = FALSE)
"""

table = questionnaire()
rows = in_r(release_of_questionnaire(table), table, "lavaan", MODEL, CODE)
show("Standardized loadings and correlations of three factors", "lavaan", rows)
