//go:build linux

package cuda

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"odradek/detectors"
)

// ucrSeries is a series of the UCR Anomaly Archive: one anomaly, at rows begin to end,
// and train rows before that have none.
type ucrSeries struct {
	name              string
	train, begin, end int
	values            []float64
}

var ucrName = regexp.MustCompile(`_(\d+)_(\d+)_(\d+)\.txt\.gz$`)

// readUCR reads the series in the folder that ODRADEK_TEST_UCR names, or in ../shared.
func readUCR(t *testing.T) []ucrSeries {
	dir := os.Getenv("ODRADEK_TEST_UCR")
	if dir == "" {
		dir = "../../shared/data/ucr/dev"
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.txt.gz"))
	if len(files) == 0 {
		t.Skip("no series of the UCR archive in " + dir + ": set ODRADEK_TEST_UCR")
	}
	var all []ucrSeries
	for _, file := range files {
		s := ucrSeries{name: filepath.Base(file)}
		numbers := ucrName.FindStringSubmatch(file)
		if numbers == nil {
			t.Fatalf("%s: no numbers in the name", file)
		}
		for i, to := range []*int{&s.train, &s.begin, &s.end} {
			*to, _ = strconv.Atoi(numbers[i+1])
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		words := bufio.NewScanner(z)
		words.Buffer(nil, 16<<20) // some series are one line
		for words.Scan() {
			for _, w := range strings.Fields(words.Text()) {
				v, err := strconv.ParseFloat(w, 64)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				s.values = append(s.values, v)
			}
		}
		f.Close()
		all = append(all, s)
	}
	return all
}

// ucrPeak is the row of the highest score of op Discord behind the training part, with
// tasks of 64 fresh rows.
func ucrPeak(t *testing.T, e detectors.Executor, d detectors.Detector, longest int, s *ucrSeries) int {
	const fresh = 64
	b := e.Batch()
	defer e.Release(b)
	params := b.Put(d.Params())
	x, dst := b.GrowF64(len(s.values))
	copy(dst, s.values)
	var ends []int
	for end := s.train + longest - 1 + fresh; end <= len(s.values); end += fresh {
		rows := min(end, d.Window()+fresh-1)
		n, ok := d.Size(detectors.View{Dim: 1, Rows: rows, Fresh: fresh})
		if !ok {
			continue // a short training part
		}
		task := detectors.Task{Op: detectors.Discord, Dim: 1, Fresh: fresh, Params: params,
			X: detectors.Span{Off: x.Off + uint32(end-rows), Len: uint32(rows)}}
		b.GrowOutputs(&task, n)
		b.Tasks, ends = append(b.Tasks, task), append(ends, end)
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	best, at := float32(-1), 0
	for i, end := range ends {
		for k, score := range b.Rows(i).Scores {
			if score > best {
				best, at = score, end-fresh+k
			}
		}
	}
	return at
}

// TestDeviceDiscordUCR finds the anomalies of the UCR archive's series online: the middle
// of the rows that the highest score speaks of is right within the anomaly and its
// length, at least 100 rows, on either side of it. docs/quality.md has the figures.
func TestDeviceDiscordUCR(t *testing.T) {
	o := deviceOptions(t)
	o.Memory, o.Deadline = 4<<30, time.Minute
	all := readUCR(t)
	e := open(t, o)
	defer e.Close()
	for i, p := range []detectors.DiscordParams{
		{Window: 20000, Length: 64, MaxLength: 150},
		{Window: 20000, Length: 64},
		{Window: 20000, Length: 100},
		{Window: 20000, Length: 150},
		{Window: 20000, Length: 100, MaxLength: 150, Lengths: 2},
		{Window: 20000, Length: 50, MaxLength: 200},
		{Window: 20000, Length: 64, MaxLength: 256},
		{Window: 8192, Length: 64, MaxLength: 150},
		{Window: 2048, Length: 64, MaxLength: 150},
		{Window: 2048, Length: 64},
	} {
		t.Run(fmt.Sprintf("%+v", p), func(t *testing.T) {
			p.MinPoints = 2 * max(p.Length, p.MaxLength) // the training part is there
			d, err := detectors.NewDiscord(p)
			if err != nil {
				t.Fatal(err)
			}
			longest := max(p.Length, p.MaxLength)
			began, found, missed := time.Now(), 0, []string(nil)
			for k := range all {
				s := &all[k]
				middle := ucrPeak(t, e, d, longest, s) - (longest-1)/2
				if near := max(100, s.end-s.begin+1); middle >= s.begin-near && middle <= s.end+near {
					found++
				} else {
					missed = append(missed, s.name[:3])
				}
			}
			share := float64(found) / float64(len(all))
			t.Logf("%d of %d found, %.3f, in %v; missed %v", found, len(all), share, time.Since(began).Round(time.Millisecond), missed)
			if i == 0 && share < 0.7 {
				t.Errorf("%.3f of the anomalies are found, want 0.7", share)
			}
		})
	}
}
