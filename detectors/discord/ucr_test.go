package discord

import (
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"odradek/detectors"
	"odradek/detectors/quality"
)

// vote returns the discord with the most votes of lengths, and their total weight; ok is false without
// any discord. A length votes for its first discord, and for discords of other lengths whose
// middle is at most half of the shorter length from its middle. The weight of its vote is
// how far the first discord exceeds the second: the ratio of their distances,
// less 1. So a length whose first two are similar, because they come from noise or from the
// shape of a period, hardly counts. All votes weigh 1 where some length has only one
// discord, and of equal totals the one of the least length wins.
//
// The vote finds more anomalies than an order by normalised distances, which prefers the lengths at which
// noise makes subsequences unlike each other, and than votes of equal weight.
func vote(found [][]Discord) (best Discord, weight float64, ok bool) {
	equal := slices.ContainsFunc(found, func(discords []Discord) bool { return len(discords) == 1 })
	middle := func(d Discord) int { return 2*d.At + d.Length } // twice
	for _, candidates := range found {
		if len(candidates) == 0 {
			continue
		}
		c, sum := candidates[0], 0.0
		for _, others := range found {
			if len(others) == 0 {
				continue
			}
			if apart := middle(c) - middle(others[0]); max(apart, -apart) > min(c.Length, others[0].Length) {
				continue
			}
			if equal {
				sum++
			} else {
				sum += outstanding(others[0], others[1])
			}
		}
		if !ok || sum > weight {
			best, weight, ok = c, sum, true
		}
	}
	return best, weight, ok
}

// outstanding returns how far a discord exceeds the next one of its length: the
// ratio of their distances less 1, at most 1000.
func outstanding(first, second Discord) float64 {
	if first.Distance == 0 { // both occur twice
		return 0
	}
	return min(1000, first.Distance/second.Distance-1)
}

func TestVote(t *testing.T) {
	// By length: the first discord and, if any, the second.
	discords := func(length, at int, distances ...float64) (all []Discord) {
		for i, d := range distances {
			all = append(all, Discord{At: at + 1000*i, Length: length, Distance: d})
		}
		return all
	}
	for name, c := range map[string]struct {
		found  [][]Discord
		at     int
		weight float64
	}{
		"two of three":                {[][]Discord{discords(10, 300, 3), discords(16, 302, 5), discords(20, 500, 9)}, 300, 2},
		"one of two, the shorter":     {[][]Discord{discords(10, 300, 3), discords(20, 500, 9)}, 300, 1},
		"a length without any":        {[][]Discord{nil, discords(20, 500, 9)}, 500, 1},
		"one stands out more":         {[][]Discord{discords(10, 300, 3, 2.9), discords(16, 302, 5, 4.9), discords(20, 500, 9, 6)}, 500, 0.5},
		"two stand out as much":       {[][]Discord{discords(10, 300, 3, 2), discords(16, 302, 3, 2), discords(20, 500, 9, 6)}, 300, 1},
		"one length has one discord":  {[][]Discord{discords(10, 300, 3, 2.9), discords(16, 302, 5, 4.9), discords(20, 500, 9)}, 300, 2},
		"the second has a copy":       {[][]Discord{discords(10, 300, 3, 0), discords(16, 500, 5, 4.9)}, 300, 1000},
		"all have a copy":             {[][]Discord{discords(10, 300, 0, 0)}, 300, 0},
		"middles half a length apart": {[][]Discord{discords(10, 90, 1), discords(20, 90, 1)}, 90, 2},
		"and one sample more":         {[][]Discord{discords(10, 90, 1), discords(20, 91, 1)}, 90, 1},
	} {
		if d, weight, ok := vote(c.found); !ok || d.At != c.at || math.Abs(weight-c.weight) > 1e-9 {
			t.Errorf("%s: %v for %v, want %v for the one at %d", name, weight, d, c.weight, c.at)
		}
	}
	if _, _, ok := vote(nil); ok {
		t.Error("a vote without discords")
	}
}

// TestUCR finds the anomaly of each series of the UCR Anomaly Archive: the middle of the
// first discord that begins after the training part, of one length and by a vote of
// lengths, is within max(length of the anomaly, 100) samples of the anomaly, the rule of
// the contest (Wu and Keogh, TKDE 2021). It takes an hour of a core.
func TestUCR(t *testing.T) {
	dir := os.Getenv("ODRADEK_TEST_UCR")
	if dir == "" {
		t.Skip("set ODRADEK_TEST_UCR to the folder of the series of the UCR archive; it takes an hour of a core")
	}
	_, set, err := quality.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(set, func(a, b quality.Series) int { return b.Len() - a.Len() }) // the long ones first
	lengths := Lengths{Min: 80, Max: 200, Step: 12}
	hits, by := make([]int, len(lengths.All())+1), 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan *quality.Series)
	for range 16 {
		wg.Go(func() {
			for s := range next {
				hit := func(d Discord) int {
					if s.UCRFinds(d.At + d.Length/2) {
						return 1
					}
					return 0
				}
				found := merlin(s.Values, s.Train, lengths, 2, func(int) Options { return Options{} }, detectors.Sequential)
				mu.Lock()
				for i, d := range found {
					hits[i] += hit(d[0])
				}
				winner, votes, _ := vote(found)
				hits[len(found)] += hit(winner)
				by++
				t.Logf("%s: %.3f of %d lengths for %d to %d, labelled %v: %v", s.Name, votes, len(found), winner.At,
					winner.At+winner.Length-1, quality.Runs(s.Labels)[0], hit(winner) == 1)
				mu.Unlock()
			}
		})
	}
	for i := range set {
		next <- &set[i]
	}
	close(next)
	wg.Wait()
	for i, m := range append(lengths.All(), 0) {
		t.Logf("length %d: %d of %d, %.3f", m, hits[i], by, float64(hits[i])/float64(by))
	}
	if rate := float64(hits[len(hits)-1]) / float64(by); rate < 0.70 {
		t.Errorf("a vote finds %.3f of the anomalies", rate)
	}
}
