// Package scan finds the rectangles of a grid whose counts exceed the counts expected from their baselines, or fall short of them:
// the spatial scan statistic (Kulldorff, Communications in Statistics 26, 1997), over all rectangles of a
// grid (Pang, Chawla, Scholz and Wilcox, A scalable approach for LRT computation in GPGPU environments, 2013;
// Wu et al., A LRT framework for fast spatial anomaly detection, KDD 2009).
//
// # Definitions
//
// A cell of a grid has a count, which was observed, and a baseline: the population, the number
// of trials, or what was counted in earlier times. Both are int64, so that sums are exact in any
// order, equal rectangles are ties, and no residual such as 1e-16 counts over a baseline of 0
// takes part. Multiply fractions by a power of ten: the ratio of [Poisson] and [Bernoulli]
// is multiplied by the counts' factor, and does not depend on the unit of Poisson's baselines.
// Sums up to [MaxTotal] are exact in float64 as well.
//
// With c and b the count and the baseline of a rectangle, C and B the totals of the grid, a rectangle
// is anomalous where c/b > C/B or, as the [Direction] says, c/b < C/B or either. The log-likelihood ratio of such a rectangle
// compares the model
// that has one parameter inside and another outside with the model that has one for all; of any other
// rectangle the ratio is 0. It is half of Lambda = -2 log(lambda) of the papers. For Poisson's model, with E
// = bC/B,
//
//	LLR = c ln(c/E) + (C-c) ln((C-c)/(C-E)),  0 ln 0 = 0
//
// A [Family] computes it as sums of the relative excess d = c-E, which do not cancel: see
// [Poisson], [Bernoulli], [Normal] and [Exponential].
//
// The most anomalous rectangle has the largest ratio. Of equal ratios, to the bit, the one with the
// smallest area comes first, then the one whose lowest corner does: by y1, x1, y2, x2. The k-th
// region has the largest ratio among the rectangles that share no cell with the k-1
// before. A limit of rows and columns leaves larger rectangles out; the totals remain the
// grid's.
//
// The ratio of one given rectangle is asymptotically distributed as chi-square over two, but
// the ratio of the largest among all rectangles is not, contrary to the paper.
//
// # Algorithms
//
// [Define] is the definition. [BruteForce], [DeMorgan] and [Approximate] are the three algorithms
// of the paper, on one core, and count their [Work]. The paper's text of De Morgan's law is
// garbled: for A the cells from the first corner of the grid to the last of the rectangle, B those
// from its first corner to the last of the grid, X and Y those beside both, |R| =
// |A|+|B|+|X|+|Y|-|G|. The four tables then give the same as the four corners of one, which
// are used here.
//
// Approximate, AX in the paper, does not compute the likelihood of the complement of a
// rectangle: it sums up the likelihoods of four parts of it, each with the best parameter for itself,
// which is at least as much. That is an upper bound of the ratio, and a rectangle whose bound
// does not reach the best ratio so far is left out, so the result is exact; only the bound is
// approximate. It pays where a family has no closed form.
//
// # p-values
//
// The distribution of the largest ratio is estimated from null maps, drawn with the same total
// ([Replicates]): a region is as significant as its ratio is rare among theirs ([Replicates.PValues]).
// A counter-based generator draws them, so a p-value is a function of the grid, the options, the seed
// and the number of maps, however the work is divided; each grid has maps of its own. The total is divided among ever smaller groups
// of cells, so a map of any total takes about one draw for each cell; but up to [MaxCounted], Poisson's
// counts are drawn one by one, with integers alone, which any processor repeats.
//
// # The fast form
//
// [Search] has the definition's result, to the bit, without computing the ratio of most
// rectangles, for any family: see [lines].
//
// # Degenerate input
//
//   - A negative baseline, a count that the family excludes, a total above MaxTotal, and cells
//     whose number is not Rows*Cols are errors of [Grid.Check], which name the cell.
//   - A cell of baseline 0 must have a count of 0.
//   - Without any rectangle above the mean, or below it for that direction (all counts 0, or all in proportion to the
//     baselines), there is no region.
package scan
