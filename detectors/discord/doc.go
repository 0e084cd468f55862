// Package discord finds the subsequences of a series that are least like any other:
// discords (Keogh, Lin and Fu, HOT SAX, ICDM 2005), range discords (Yankov, Keogh and
// Rebbapragada, Disk aware discord discovery, ICDM 2007), the discords of every length of
// a range (Nakamura et al., MERLIN, ICDM 2020; Zymbler and Kraeva, PALMAD, Mathematics 11,
// 2023), and left discords, of streams (Lu et al., DAMP, KDD 2022).
//
// # Definitions
//
// The subsequence at i are the m values from x[i] on. Two subsequences are compared by
// their z-normalised Euclidean distance: each less its mean and divided by its population
// standard deviation, so that d^2 = 2m(1-rho) with rho their correlation, and d is from 0
// to 2*sqrt(m).
//
// Subsequences at i and j are non-self matches where |i-j| is at least the exclusion,
// which is m unless [Options] say otherwise. The nearest-neighbour distance of a
// subsequence is the least distance to its non-self matches; where several are equally
// near, the neighbour is the one that comes first. Of a left profile, only subsequences
// before it count.
//
// The first discord is the subsequence with the largest nearest-neighbour distance, and the
// k-th discord the one with the largest among those that do not overlap (|i-j| >= m) any
// of the k-1 before. PALMAD's text has another k-th discord, the subsequence whose k-th
// nearest neighbour is farthest; its programs, and ours, have this one. Of equal ones the
// first counts. A range discord has a nearest-neighbour distance of at least r, not
// squared.
//
// With K above 1 the distance of a subsequence is the sum of the distances to its K nearest
// neighbours (the K-distance discord of Thuy, Anh and Chau, ICSED 2021), so that an anomaly
// that happens twice does not hide itself. The neighbours are non-self matches of each
// other as well: they are taken one after the other, nearest first, each among the
// subsequences that are at least the exclusion away from those taken before. Otherwise the
// second neighbour would be the first, shifted by one. Correlations that are the same in
// float32 are ties, of which the first subsequence counts, so that roundings do not decide
// which neighbours are left. Where there are fewer than K, the sum is multiplied by K and
// divided by their number. The score of a left discord ([LeftQuery.Define]) is the mean of
// its K distances instead, each divided by sqrt(2m): the scores have the order of the
// sums, and one threshold is valid for any K.
//
// On a GPU the ops use the kernels that cuda/plan/discords.go and cuda/plan/discord.go plan, held to the same definitions.
//
// # Degenerate input
//
//   - A subsequence with a NaN or an infinity has no distance (NaN) and is nobody's
//     neighbour. So has one whose squared deviations exceed the range of a float64.
//   - A subsequence is flat where its values are all equal. Two flat ones have the distance
//     0. A flat one and another have no correlation, rho = 0, and the distance sqrt(2m);
//     with ExcludeFlat they are not compared.
//   - A subsequence without any neighbour has no distance (NaN), so no subsequence of a
//     series shorter than m plus the exclusion has one.
package discord
