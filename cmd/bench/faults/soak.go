package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/bench/testbed"
	"odradek/processor/kafkatest"
)

// sampleEvery is the time between two samples of what the worker that lasts holds.
const sampleEvery = 5 * time.Second

// Level is what a soak says of one measure.
type Level struct {
	Name     string  `json:"name"`
	Median   float64 `json:"median"`   // over the last half
	Most     float64 `json:"most"`     // ever
	Drift    float64 `json:"drift"`    // change over the last half by the median slope, as a share of the median
	Limit    float64 `json:"limit"`    // of the drift
	Samples  int     `json:"samples"`  // of the last half
	Exceeded bool    `json:"exceeded"` // the limit is
}

// measures of worker w0, which never ends, and some of the whole fleet.
var measures = []struct {
	name  string
	limit float64 // the drift over half a run that is no leak
}{
	{"memory, MB", 0.15},
	{"goroutines", 0.1},
	{"files", 0.1},
	{"lag of all workers, records", 1}, // a fault at the end weighs more than the slope
	{"changelog, MB", 0.3},
}

// watch samples the measures until the context ends.
func (r *round) watch(ctx context.Context, input string) [][]float64 {
	samples := make([][]float64, len(measures))
	for testbed.Pause(ctx, sampleEvery) == nil {
		values, err := r.sample(ctx, input)
		if err != nil {
			r.say("no sample: %v", err) // a fault holds the answers back
			continue
		}
		for i, v := range values {
			samples[i] = append(samples[i], v)
		}
	}
	return samples
}

func (r *round) sample(ctx context.Context, input string) ([]float64, error) {
	w := r.lasting
	goroutines, err := goroutines(ctx, w.addr)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir("/proc/" + strconv.Itoa(w.PID()) + "/fd")
	if err != nil {
		return nil, err
	}
	ends, err := r.c.Admin().Ends(ctx, input, kafkatest.HighWatermark)
	if err != nil {
		return nil, err
	}
	var lag int64
	for tp, committed := range r.committed(input) {
		lag += ends[tp.Partition] - committed
		delete(ends, tp.Partition)
	}
	if len(ends) > 0 {
		return nil, errors.New("no committed offsets")
	}
	size, err := r.logBytes(ctx, changelog(r.group(), input))
	if err != nil {
		return nil, err
	}
	return []float64{float64(testbed.ResidentBytes(w.PID())) / 1e6, goroutines, float64(len(files)), float64(lag), float64(size) / 1e6}, nil
}

// goroutines asks a worker.
func goroutines(ctx context.Context, addr string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), "\ngo_goroutines ")
	if !found {
		return 0, errors.New("faults: the worker has no metric go_goroutines")
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(line, 64)
}

// logBytes returns the bytes of a topic's partitions on the node that has most.
func (r *round) logBytes(ctx context.Context, topic string) (most int64, err error) {
	nodes, err := r.c.Admin().Nodes(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range nodes {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic = topic
		for p := range int32(2 * partitions) {
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		res, err := req.RequestWith(ctx, r.c.Admin().Client().Broker(int(n)))
		cancel()
		if err != nil {
			return 0, err
		}
		var size int64
		for _, d := range res.Dirs {
			for _, t := range d.Topics {
				for _, p := range t.Partitions {
					size += p.Size
				}
			}
		}
		most = max(most, size)
	}
	return most, nil
}

// levels says of each measure whether it was level over the last half of its samples.
func levels(samples [][]float64) (all []Level) {
	for i, m := range measures {
		s := samples[i]
		l := Level{Name: m.name, Limit: m.limit}
		if len(s) > 0 {
			l.Most = slices.Max(s)
		}
		half := s[len(s)/2:]
		l.Samples = len(half)
		if len(half) > 1 {
			l.Median = median(slices.Clone(half))
			l.Drift = slope(half) * float64(len(half)) / max(l.Median, 1)
		}
		l.Exceeded = l.Drift > l.Limit || len(half) < 10
		all = append(all, l)
	}
	return all
}

// slope returns the median of the slopes between all pairs of samples, which a few that are far off do not change.
func slope(s []float64) float64 {
	var all []float64
	for i := range s {
		for j := range i {
			all = append(all, (s[i]-s[j])/float64(i-j))
		}
	}
	return median(all)
}

// median sorts its argument.
func median(s []float64) float64 {
	slices.Sort(s)
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// Levels writes what a soak has measured, as a table of Markdown.
func Levels(out io.Writer, all []Level) {
	fmt.Fprintln(out, "| measure | median | most | change over the last half | limit |")
	fmt.Fprintln(out, "|---|---|---|---|---|")
	for _, l := range all {
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %+.1f %% | %.0f %% |\n", l.Name, l.Median, l.Most, 100*l.Drift, 100*l.Limit)
	}
}
