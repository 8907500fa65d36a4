# What R says of ratings.csv: Rscript ratings_reference.R > ratings_reference.json
# Debian's r-cran-lme4, r-cran-multcomp and r-cran-jsonlite.
suppressPackageStartupMessages({ library(lme4); library(multcomp); library(jsonlite) })
set.seed(1)
all <- read.csv("ratings.csv")
answer <- list()
for (activity in unique(all$activity)) {
  own <- all[all$activity == activity, ]
  losses <- sort(unique(own$loss_percent))
  pairs <- combn(losses, 2, simplify = FALSE)
  tests <- function(equal) lapply(pairs, function(pair) {
    one <- t.test(own$rating[own$loss_percent == pair[2]], own$rating[own$loss_percent == pair[1]],
                  var.equal = equal)
    list(p = one$p.value, low = one$conf.int[1], high = one$conf.int[2])
  })
  own$loss <- factor(own$loss_percent)
  model <- lmer(rating ~ loss + (1 | subject), own)
  compared <- glht(model, linfct = mcp(loss = "Tukey"))
  p <- summary(compared, test = adjusted("single-step", abseps = 1e-5, maxpts = 1e6))$test$pvalues
  ends <- confint(compared, level = 0.95)$confint
  honest <- lapply(seq_along(pairs), function(i) list(
    estimate = ends[i, 1], low = ends[i, 2], high = ends[i, 3], p = p[i]))
  line <- summary(lmer(rating ~ loss_percent + (1 | subject), own))$coefficients
  answer[[activity]] <- list(
    t_tests = tests(TRUE), welch = tests(FALSE), honest = honest,
    slope = list(estimate = line[2, 1], error = line[2, 2]))
}
cat(toJSON(answer, auto_unbox = TRUE, digits = 12, pretty = TRUE), "\n")
