//go:build linux

package cuda

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"odradek/cmd/worker/quality"
	"odradek/detectors"
	"odradek/detectors/ops/discord"
)

// readUCR reads the series of the UCR Anomaly Archive in the folder that ODRADEK_TEST_UCR
// names, or in ../shared.
func readUCR(t *testing.T) []quality.Series {
	dir := cmp.Or(os.Getenv("ODRADEK_TEST_UCR"), "../../shared/data/ucr/dev")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no series of the UCR archive: ", err, ": set ODRADEK_TEST_UCR")
	}
	_, set, err := quality.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// ucrPeak returns the row of the highest score of op Discord after the training part, with tasks of 64
// fresh rows.
func ucrPeak(t *testing.T, e detectors.Executor, d detectors.Detector, longest int, s *quality.Series) int {
	const fresh = 64
	b := e.Batch()
	defer e.Release(b)
	params := b.Put(d.Params())
	x, dst := b.GrowF64(len(s.Values))
	copy(dst, s.Values)
	var ends []int
	for end := s.Train + longest - 1 + fresh; end <= len(s.Values); end += fresh {
		rows := min(end, d.Window()+fresh-1)
		n, ok := d.Size(detectors.View{Dim: 1, Rows: rows, Fresh: fresh})
		if !ok {
			continue // a short training part
		}
		task := detectors.Task{Op: discord.Op, Dim: 1, Fresh: fresh, Params: params,
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

// TestDeviceDiscordUCR finds the anomalies of 79 series of the UCR archive online: the middle of the
// rows that the highest score covers must be within the anomaly or within its length, at least 100
// rows, on either side of it. An independent program, a recurrence along diagonals, gives the number to
// find. docs/quality.md has the figures.
func TestDeviceDiscordUCR(t *testing.T) {
	o := deviceOptions(t)
	o.Memory, o.Deadline = 4<<30, time.Minute
	all := readUCR(t)
	e := open(t, o)
	defer e.Close()
	for _, c := range []struct {
		p     discord.Params
		found int // of 79
	}{
		{discord.Params{Window: 20000, Length: 64}, 35},
		{discord.Params{Window: 20000, Length: 100}, 40},
		{discord.Params{Window: 20000, Length: 150}, 47},
		{discord.Params{Window: 20000, Length: 100, MaxLength: 150, Lengths: 2}, 46},
	} {
		t.Run(fmt.Sprintf("%d to %d", c.p.Length, max(c.p.Length, c.p.MaxLength)), func(t *testing.T) {
			longest := max(c.p.Length, c.p.MaxLength)
			c.p.MinPoints = 2 * longest // the training part precedes it
			d, err := discord.New(c.p)
			if err != nil {
				t.Fatal(err)
			}
			began, found, short, missed := time.Now(), 0, 0, []string(nil)
			for k := range all {
				s := &all[k]
				middle := ucrPeak(t, e, d, longest, s) - (longest-1)/2
				if !s.UCRFinds(middle) {
					missed = append(missed, s.Name[:3])
				} else if found++; len(s.Values) <= 100000 {
					short++
				}
			}
			t.Logf("%d of %d found, %d of those of 100,000 samples or fewer, in %v; missed %v", found, len(all), short,
				time.Since(began).Round(time.Millisecond), missed)
			if len(all) != 79 {
				t.Skipf("%d series, not the 79 that there is a figure of", len(all))
			}
			if found != c.found {
				t.Errorf("%d of %d anomalies are found, want %d", found, len(all), c.found)
			}
		})
	}
}
