package backtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/state"
)

// seriesBed is a topic with one partition, and settings that read it.
type seriesBed struct {
	t      *testing.T
	client *kafka.Client
	admin  *kafkatest.Admin
	c      *config.Config
}

// newSeriesBed writes n rounds of a record of each of 3 pumps: noise with steps, out of order by 3 s at most, and a silence of pump-1.
func newSeriesBed(t *testing.T, n int, more ...string) *seriesBed {
	t.Helper()
	k := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	if err := k.Admin().CreateTopic(t.Context(), "in", 1, 1, nil); err != nil {
		t.Fatal(err)
	}
	rng := seedtest.New(t)
	var records []kafkatest.Record
	var level [3]float64
	for i := range n {
		for p := range 3 {
			if p == 1 && i >= 600 && i < 640 {
				continue // silent
			}
			at := 1_700_000_000_000 + int64(i)*1000 - rng.Int64N(3)*1000*int64(i%7/6)
			if rng.IntN(60) == 0 {
				level[p] += 2 + 8*rng.Float64()
			}
			a, b := level[p]+rng.NormFloat64(), level[p]+rng.NormFloat64()
			value := fmt.Appendf(nil, `{"id":"pump-%d","at":%d,"a":%.4f,"b":%.4f,"points":[{"v":%.3f,"t":%d},{"v":%.3f,"t":%d}]}`, p, at, a, b, a,
				at, b, at+500)
			if rng.IntN(100) == 0 {
				value = value[:20]
			}
			records = append(records, kafkatest.Record{Topic: "in", Key: fmt.Appendf(nil, "%d", p), Time: at, Value: value})
		}
	}
	if _, err := k.ProduceAcked(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	client, err := kafka.Open(t.Context(), kafka.Config{Brokers: k.Brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	c, faults, _ := config.Parse(append([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=id",
		"ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=a", "ODRADEK_PRESET=change"}, more...))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return &seriesBed{t, client, k.Admin(), c}
}

func (b *seriesBed) topic(c *config.Config) *TopicConfig {
	b.t.Helper()
	dec, err := c.NewDecoder(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := c.KeystateConfig()
	if err != nil {
		b.t.Fatal(err)
	}
	return &TopicConfig{Client: b.client, Decoder: dec, Series: c.Series(), State: s, Topic: "in", From: "earliest", To: "end",
		Fetch: kafka.FetchConfig{ReadCommitted: true, MaxWait: 50 * time.Millisecond}}
}

// run returns a run of a series by the settings and by a higher sensitivity, without bounds.
func (b *seriesBed) run(key string) *SeriesConfig {
	b.t.Helper()
	high, err := b.c.WithSensitivity("high")
	if err != nil {
		b.t.Fatal(err)
	}
	t := b.topic(b.c)
	exec := detectors.NewCPU(1)
	b.t.Cleanup(func() { exec.Close() })
	return &SeriesConfig{Topic: t, Key: []byte(key), Settings: []*state.Config{t.State, b.topic(high).State}, Executor: exec,
		Samples: 1e9, Records: 1e9, Bytes: 1e15, Time: time.Hour}
}

// told writes anomalies as text, in order.
func told(list []state.EventRow) string {
	var lines []string
	for i := range list {
		a := &list[i].Change.Anomaly
		lines = append(lines, fmt.Sprintf("%x of %x, revision %d, severity %d, %d to %d, score %v, open %v", a.ID, a.Fault, a.Revision,
			a.Severity, a.Start, a.End, a.PeakScore, !Over(&list[i])))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestSeriesIsTheRun: a series by itself has the anomalies that it has among the others in worker backtest, with each of the settings:
// of one value and of several, in intervals, of arrays of readings, and where each value is a series.
func TestSeriesIsTheRun(t *testing.T) {
	more := 0 // anomalies with high than with normal
	for _, x := range []struct {
		key  string
		more []string
	}{
		{"pump-1", nil},
		{"pump-1", []string{"ODRADEK_LATENESS=5s"}},
		{"pump-1", []string{"ODRADEK_VALUE_FIELDS=a,b"}},
		{"pump-1", []string{"ODRADEK_EVERY=5s", "ODRADEK_LATENESS=5s"}},
		{"pump-1", []string{"ODRADEK_READINGS_FIELD=points", "ODRADEK_VALUE_FIELDS=points.v", "ODRADEK_TIME_FIELD=points.t"}},
		{"pump-1/b", []string{"ODRADEK_SERIES_FIELDS=a,b", "ODRADEK_VALUE_FIELDS="}},
		{"pump-1", []string{"ODRADEK_SILENCE=20s", "ODRADEK_GROUP_BY=^pump"}},
	} {
		t.Run(strings.Join(append(x.more, x.key), " "), func(t *testing.T) {
			b := newSeriesBed(t, 1200, x.more...)
			got, err := RunSeries(t.Context(), b.run(x.key))
			if err != nil {
				t.Fatal(err)
			}
			if got.Bound != NoBound || got.Records != 3560 || len(got.Troubles) == 0 {
				t.Errorf("%d records, bound %q, %q", got.Records, got.Bound, got.Troubles)
			}
			for i, sensitivity := range []string{"normal", "high"} {
				c, err := b.c.WithSensitivity(sensitivity)
				if err != nil {
					t.Fatal(err)
				}
				tc := b.topic(c)
				src, err := NewTopic(t.Context(), tc)
				if err != nil {
					t.Fatal(err)
				}
				exec := detectors.NewCPU(1)
				defer exec.Close()
				all, err := Run(t.Context(), &Config{State: tc.State, Executor: exec, Source: src})
				if err != nil {
					t.Fatal(err)
				}
				var want []state.EventRow
				faults := 0
				for j := range all.Anomalies {
					if a := &all.Anomalies[j]; a.Series == x.key && a.Detector >= 0 {
						want = append(want, a.EventRow)
						if a.Change.Anomaly.Fault == a.Change.Anomaly.ID {
							faults++
						}
					}
				}
				course := &got.Courses[i]
				if len(want) == 0 || len(all.Anomalies) == shownMost {
					t.Fatalf("%s: %d of %d anomalies are of the series", sensitivity, len(want), len(all.Anomalies))
				}
				if have := told(course.Anomalies); have != told(want) || course.Faults != faults {
					t.Errorf("%s: %d faults of\n%s\nwant %d of\n%s", sensitivity, course.Faults, have, faults, told(want))
				}
				if n := slices.MaxFunc(all.Detectors, func(a, b DetectorResult) int { return cmp.Compare(a.Days, b.Days) }); course.Days <= 0 ||
					course.Days > n.Days {
					t.Errorf("%s: %v days of %v", sensitivity, course.Days, n.Days)
				}
			}
			more += len(got.Courses[1].Anomalies) - len(got.Courses[0].Anomalies)
			if n := len(got.Curve.Times); n < 200 || n > curvePoints || got.Curve.Times[0] > got.Oldest+1 || got.Curve.Times[n-1] > got.Newest ||
				len(got.Curve.Low[0]) != n || len(got.Curve.High) != len(got.Curve.Low) {
				t.Errorf("%d points of %d samples from %d to %d", n, got.Samples, got.Oldest, got.Newest)
			}
		})
	}
	if more <= 0 {
		t.Errorf("%d anomalies more with high than with normal", more)
	}
}

// TestSeriesInShadow: a detector in shadow mode judges nothing of what is compared.
func TestSeriesInShadow(t *testing.T) {
	b := newSeriesBed(t, 1200, "ODRADEK_DETECTOR_LEVEL_SHADOW=true")
	got, err := RunSeries(t.Context(), b.run("pump-1"))
	if err != nil || got.Samples == 0 || len(got.Courses[1].Anomalies) > 0 || got.Courses[1].Days > 0 {
		t.Errorf("%+v, %v", got.Courses, err)
	}
}

// TestSeriesBounds: each bound cuts, and says so; the newest records are read, but where time is over.
func TestSeriesBounds(t *testing.T) {
	const n = 6000 - 40
	b := newSeriesBed(t, 2000)
	whole, err := RunSeries(t.Context(), b.run("pump-1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		bound    Bound
		set      func(c *SeriesConfig)
		low, top int64 // records
	}{
		{SamplesBound, func(c *SeriesConfig) { c.Samples = 700 }, 1900, 2300},
		{RecordsBound, func(c *SeriesConfig) { c.Records = 900 }, 900, 900},
		{BytesBound, func(c *SeriesConfig) { c.Bytes = whole.Bytes / 3 }, n/3 - 100, n/3 + 100},
		{TimeBound, func(c *SeriesConfig) { c.Time = 0 }, seriesBatch, 2 * seriesBatch},
	} {
		c := b.run("pump-1")
		x.set(c)
		r, err := RunSeries(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		atEnd := x.bound != TimeBound
		if r.Bound != x.bound || r.Records < x.low || r.Records > x.top || (r.Until == r.End) != atEnd || (r.From == r.First) == atEnd ||
			r.Samples == 0 || r.Until-r.From != r.Records {
			t.Errorf("%s: bound %q, offsets %d to %d of %d to %d, %d records, %d samples", x.bound, r.Bound, r.From, r.Until, r.First,
				r.End, r.Records, r.Samples)
		}
	}
	r, err := RunSeries(t.Context(), b.run("pump-9"))
	if err != nil || r.Samples != 0 || r.Records != n || len(r.Curve.Times) != 0 {
		t.Errorf("another series: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunSeries(ctx, b.run("pump-1")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	c := b.run("pump-1")
	c.Topic.Topic = "empty"
	if err := b.admin.CreateTopic(t.Context(), "empty", 1, 1, nil); err != nil {
		t.Fatal(err)
	}
	if r, err = RunSeries(t.Context(), c); err != nil || r.First != r.End || r.Courses != nil {
		t.Errorf("an empty topic: %+v, %v", r, err)
	}
}
