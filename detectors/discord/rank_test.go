package discord

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
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

var ucrName = regexp.MustCompile(`_(\d+)_(\d+)_(\d+)\.txt\.gz$`)

// TestUCR finds the anomaly of each series of the UCR Anomaly Archive: the middle of the
// first discord that begins after the training part, of one length and by a vote of
// lengths, is within max(length of the anomaly, 100) samples of the anomaly, the rule of
// the contest (Wu and Keogh, TKDE 2021). It takes an hour of a core.
func TestUCR(t *testing.T) {
	dir := os.Getenv("ODRADEK_TEST_UCR")
	if dir == "" {
		t.Skip("set ODRADEK_TEST_UCR to the folder of the series of the UCR archive; it takes an hour of a core")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.txt.gz"))
	if len(files) == 0 {
		t.Fatal("no series in " + dir)
	}
	size := func(file string) int64 {
		i, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return i.Size()
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(size(b), size(a)) }) // the long ones first
	lengths := Lengths{Min: 80, Max: 200, Step: 12}
	hits, by := make([]int, len(lengths.All())+1), 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan string)
	for range 16 {
		wg.Go(func() {
			for file := range next {
				var x []float64
				for _, v := range strings.Fields(unzip(t, file)) {
					f, err := strconv.ParseFloat(v, 64)
					if err != nil {
						t.Error(err)
					}
					x = append(x, f)
				}
				var numbers [3]int
				for i, s := range ucrName.FindStringSubmatch(file)[1:] {
					numbers[i], _ = strconv.Atoi(s)
				}
				train, begin, end := numbers[0], numbers[1], numbers[2]
				hit := func(d Discord) int {
					slack := max(100, end-begin+1)
					if middle := d.At + d.Length/2; middle >= begin-slack && middle <= end+slack {
						return 1
					}
					return 0
				}
				found := merlin(x, train, lengths, 1, func(int) Options { return Options{} }, Sequential)
				mu.Lock()
				for i, d := range found {
					hits[i] += hit(d[0])
				}
				vote, votes, _ := Vote(found)
				hits[len(found)] += hit(vote)
				by++
				t.Logf("%s: %d of %d lengths for %d to %d, labelled %d to %d: %v", filepath.Base(file), votes, len(found), vote.At,
					vote.At+vote.Length-1, begin, end, hit(vote) == 1)
				mu.Unlock()
			}
		})
	}
	for _, file := range files {
		next <- file
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
