# The saved results of tests/unit/analysis/test_gee.py: R's geepack on episodes.csv.
#   python -m tests.data.geepack.make && Rscript tests/data/geepack/fit.R     in the repository's root
# (Debian: apt-get install r-base-core r-cran-geepack)
library(geepack)
folder <- "tests/data/geepack"
rows <- read.csv(file.path(folder, "episodes.csv"), stringsAsFactors = TRUE)
z <- function(x) (x - mean(x)) / sqrt(mean((x - mean(x))^2))
for (slice in levels(rows$dataset)) for (name in c("depth", "breadth")) {
  here <- rows$dataset == slice
  rows[here, name] <- z(rows[here, name])
}
rows$SH <- as.numeric(rows$planner == "sh")
rows <- rows[order(rows$dataset, rows$case_id), ]
rows$cluster <- as.integer(interaction(rows$dataset, rows$case_id, drop = TRUE, lex.order = TRUE))
fit <- geeglm(success ~ depth * SH + breadth * SH + last_step + dataset,
              id = cluster, data = rows, family = binomial, corstr = "independence", std.err = "san.se",
              control = geese.control(epsilon = 1e-10, maxit = 100))
found <- summary(fit)$coefficients
names <- rownames(found)
names <- sub("^last_step(.+)$", "last_step[T.\\1]", names)
names <- sub("^dataset(.+)$", "dataset[T.\\1]", names)
names <- sub("^SH:breadth$", "breadth:SH", sub("^\\(Intercept\\)$", "Intercept", names))
table <- data.frame(name = names, coefficient = found[, "Estimate"], se = found[, "Std.err"], p = found[, "Pr(>|W|)"])
write.csv(format(table, digits = 12, trim = TRUE), file.path(folder, "geepack.csv"), row.names = FALSE, quote = FALSE)
cat("R", as.character(getRversion()), "geepack", as.character(packageVersion("geepack")), "\n")
