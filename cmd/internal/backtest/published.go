package backtest

import (
	"context"
	"fmt"
	"math"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state/series"
	"odradek/schemas/output"
)

// Published are the anomalies that workers have published of a topic: by detector, and by series key.
type Published map[string]map[string][]publishedSpan

// publishedSpan is what an anomaly covers, an open one up to the end of time.
type publishedSpan struct {
	span     Span
	openedAt int64
}

// ReadPublished reads the committed records of a topic of anomalies, and returns what they say of the anomalies of the input topic
// source. Silences are no detector's, and are left out.
func ReadPublished(ctx context.Context, client *kafka.Client, cfg kafka.FetchConfig, topic, source string) (Published, error) {
	infos, err := client.Admin.Topics(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("backtest: topic %q: %w", topic, err)
	}
	if !infos[topic].Exists {
		return nil, fmt.Errorf("backtest: topic %q does not exist, or may not be described: name the topic of a group's anomalies", topic)
	}
	var tps []kafka.TP
	for p := range infos[topic].Partitions {
		tps = append(tps, kafka.TP{Topic: topic, Partition: int32(p)})
	}
	first, err := client.Offsets.ListOffsets(ctx, tps, kafka.Earliest)
	if err != nil {
		return nil, fmt.Errorf("backtest: first offsets of %q: %w", topic, err)
	}
	end, err := client.Offsets.ListStable(ctx, tps)
	if err != nil {
		return nil, fmt.Errorf("backtest: last offsets of %q: %w", topic, err)
	}
	f := kafka.NewFetcher(client, cfg)
	defer f.Close()
	last := map[[16]byte]output.Anomaly{}
	for _, tp := range tps {
		err := f.ReadRange(ctx, tp, first[tp], end[tp], func(r *record.Record) (bool, error) {
			a, err := output.DecodeAnomaly(r.Value)
			if err != nil || a.Topic != source || a.Detector == series.SilenceName || a.Revision <= last[a.ID].Revision {
				return true, nil //nolint:nilerr // of another program
			}
			last[a.ID] = output.Anomaly{Revision: a.Revision, Kind: a.Kind, Key: append([]byte(nil), r.Key...), Detector: a.Detector,
				Start: a.Start, End: a.End, OpenedAt: a.OpenedAt}
			return true, nil
		})
		if err != nil {
			return nil, fmt.Errorf("backtest: %s: %w", tp, err)
		}
	}
	p := Published{}
	for id := range last {
		a := last[id]
		if p[a.Detector] == nil {
			p[a.Detector] = map[string][]publishedSpan{}
		}
		to := max(a.End, a.OpenedAt)
		if output.AnomalyKinds[a.Kind] != "close" {
			to = math.MaxInt64
		}
		p[a.Detector][string(a.Key)] = append(p[a.Detector][string(a.Key)], publishedSpan{Span{a.Start, to}, a.OpenedAt})
	}
	return p, nil
}

// baseline returns the published anomalies that a detector's anomalies of a series are compared with: the same detector's, or all if it
// has published none.
func (p Published) baseline(detector, key string) (list []besideSpan) {
	add := func(spans []publishedSpan) {
		for _, s := range spans {
			list = append(list, besideSpan{publishedSpan: s})
		}
	}
	if own := p[detector]; own != nil {
		add(own[key])
		return list
	}
	for _, bySeries := range p {
		add(bySeries[key])
	}
	return list
}

// besideSpan is a published anomaly, and whether the backtest has found it.
type besideSpan struct {
	publishedSpan
	found bool
}

// Beside compares the anomalies of a detector with published ones of the same series. Two are of one fault where they have
// an event time in common.
type Beside struct {
	By               string // the detector that published them; "": any
	Published, Found int    // of those that opened within the rows of their series, and how many of them the backtest has found
	Both, Only       int    // anomalies of the backtest that were published, too, and the others
}

// Missed returns the number of published anomalies that the backtest has not found.
func (b *Beside) Missed() int { return b.Published - b.Found }

func (b *Beside) String() string {
	by := "any detector"
	if b.By != "" {
		by = b.By
	}
	return fmt.Sprintf("%d published by %s: %d of them found, %d not; %d anomalies of the backtest among them, %d new",
		b.Published, by, b.Found, b.Missed(), b.Both, b.Only)
}

// compare compares an anomaly of the backtest with the published ones.
func (t *track) compare(span Span) {
	met := false
	for i := range t.beside {
		if b := &t.beside[i]; b.span.meets(span) {
			b.found, met = true, true
		}
	}
	if met {
		t.both++
	} else {
		t.only++
	}
}

// sumBeside sums up what compare has found of a detector.
func (c *Config) sumBeside(name string, all []*seriesTrack) *Beside {
	if c.Published == nil {
		return nil
	}
	out := &Beside{}
	if c.Published[name] != nil {
		out.By = name
	}
	for _, series := range all {
		d := series.detector(name)
		if d < 0 {
			continue
		}
		t := &series.dets[d]
		out.Both += t.both
		out.Only += t.only
		for _, b := range t.beside {
			if b.openedAt >= series.first && b.openedAt <= series.last {
				out.Published++
				if b.found {
					out.Found++
				}
			}
		}
	}
	return out
}
