package discord

import (
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"

	"odradek/cmd/worker/quality"
)

func TestRank(t *testing.T) {
	found := [][]Discord{
		{{At: 100, Length: 10, Distance: 3}, {At: 300, Length: 10, Distance: 2}},
		{{At: 302, Length: 16, Distance: 5}},
		{{At: 500, Length: 20, Distance: 4}, {At: 296, Length: 20, Distance: 3}},
		nil,
	}
	var at []int
	for _, d := range Rank(found, 1) {
		at = append(at, d.At)
	}
	// 25/32, 9/20, 16/40, 9/40 and 4/20
	if want := []int{302, 100, 500, 296, 300}; !reflect.DeepEqual(at, want) {
		t.Errorf("ranks %v, want %v", at, want)
	}
	if d, votes, ok := Vote(found); d != found[0][1] || votes != 3 || !ok {
		t.Errorf("%d votes for %v", votes, d)
	}
	if d, votes, _ := Vote(found[:1]); d != found[0][0] || votes != 1 {
		t.Errorf("%d votes for %v of one length", votes, d)
	}
	// Middles half of the shorter length apart, and one sample more.
	for _, c := range [][2]int{{97, 2}, {98, 1}} {
		if _, votes, _ := Vote([][]Discord{{{At: 90, Length: 10}}, {{At: c[0] - 7, Length: 20}}}); votes != c[1] {
			t.Errorf("%d votes where the longer begins at %d, want %d", votes, c[0]-7, c[1])
		}
	}
	if _, _, ok := Vote(nil); ok {
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
				found := merlin(s.Values, s.Train, lengths, 1, func(int) Options { return Options{} }, Sequential)
				mu.Lock()
				for i, d := range found {
					hits[i] += hit(d[0])
				}
				vote, votes, _ := Vote(found)
				hits[len(found)] += hit(vote)
				by++
				t.Logf("%s: %d of %d lengths for %d to %d, labelled %v: %v", s.Name, votes, len(found), vote.At,
					vote.At+vote.Length-1, quality.Runs(s.Labels)[0], hit(vote) == 1)
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
