package suggest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/config/settingsfile"
	"odradek/processor"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas"
	"odradek/schemas/formats"
)

const (
	// depth is the number of samples of a series that the detectors should see.
	depth = 8192
	// leastSeries is the least number of series to run the detectors on.
	leastSeries = 16
	// leastRekeyed is the least lateness where records go through the internal topic.
	leastRekeyed = 10 * time.Second
	// leastTwins is the least number of repeated samples that speak for a producer that repeats.
	leastTwins = 3
	// mostIdle is the most that idle_after may be.
	mostIdle = 168 * time.Hour
	// manyRecords is how many times more records are read than samples are kept, where there are many series.
	manyRecords = 3
)

// historic is a sample of the history.
type historic struct {
	series int32
	time   int64
	ahead  int64
	offset int64
	values []float64
}

// stretch is what was read of one partition.
type stretch struct {
	partitionRange
	from    int64
	samples []historic
	names   [][]byte // of the series that are kept
}

// history are the newest records of some partitions, as the worker reads them.
type history struct {
	m        *mapping
	c        *config.Config
	base     []settingsfile.Setting // of the records
	state    []settingsfile.Setting
	stretch  []*stretch
	records  int
	samples  int // read; stretch has the samples of the series that are kept
	series   int // seen
	valued   int // of those seen that have a value
	bad      int
	why      string
	whole    bool // all records of the topic
	cut      string
	behind   []int // samples by how far they are behind the newest of their partition, as round has it; those at the end are further
	unsorted int   // samples older than the newest of their series
	doubles  int   // samples with the time of one of the last of their series, and other values
	twins    int   // likewise, with its values
	furthest int64 // how far behind the newest of its partition a sample was
	pauses   []int64
	longest  int64 // pause of a series
	jump     int64 // pause of a partition
	width    int
	rekey    bool
	ahead    string // a series whose clock is ahead of the others, in words

	preset string
}

// readHistory reads the newest records of as many partitions as the bounds allow.
func (m *mapping) readHistory(ctx context.Context) (*history, error) {
	base := slices.DeleteFunc(slices.Clone(m.s.settings), func(s settingsfile.Setting) bool { return s.Off })
	h := &history{m: m, base: base, behind: make([]int, len(round)+1), whole: true}
	h.rekey = slices.ContainsFunc(base, func(s settingsfile.Setting) bool { return s.Key == "rekey" })
	parsed := base
	if h.rekey { // it needs some, see stateSettings
		parsed = append(slices.Clone(base), settingsfile.Setting{Key: "lateness", Value: text(leastRekeyed)})
	}
	var err error
	if h.c, err = m.c.with(parsed); err != nil {
		return nil, err
	}
	opts, err := h.c.DecoderOptions()
	if err != nil {
		return nil, err
	}
	dec, err := formats.NewDecoder(h.c.RecordMapping(), m.c.Registry, opts)
	if err != nil {
		return nil, fmt.Errorf("suggest: %w", err)
	}
	h.width = dec.Width()
	if h.c.Series() != nil {
		h.width = 1
	}
	ctx, cancel := context.WithTimeout(ctx, m.c.Time)
	defer cancel()
	f := kafka.NewFetcher(m.c.Client, m.c.Fetch)
	defer f.Close()
	parts, each := h.choose()
	for _, p := range parts {
		s := &stretch{partitionRange: p, from: max(p.first, p.end-each)}
		h.whole = h.whole && s.from == p.first
		if err := h.read(ctx, f, dec.Clone(), s, len(parts)); err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("suggest: %w", err)
		}
		h.stretch = append(h.stretch, s)
		if ctx.Err() != nil {
			h.cut, h.whole = "the limit of time", false
			break
		}
	}
	if h.samples == 0 {
		return nil, fmt.Errorf("suggest: none of %s of topic %q can be read with the settings that were found, such as %s",
			count(h.records, "record"), m.c.Topic, h.why)
	}
	if m.every > 0 { // a sample is an interval, and equal events are several
		h.pauses, h.twins, h.doubles = []int64{m.every.Microseconds()}, 0, 0
	}
	if h.series < m.keys*m.sensors {
		h.valued, h.series = h.valued*m.keys*m.sensors/h.series, m.keys*m.sensors
	}
	return h, nil
}

// choose returns the partitions to read, and how many records of each. Few partitions are read far back where their series have
// many samples between them.
func (h *history) choose() (parts []partitionRange, each int64) {
	m := h.m
	perRecord := max(1, len(m.t.points)*m.sensors/max(1, m.t.records-m.t.tombstones))
	most := int64(manyRecords * m.c.Samples / perRecord)
	for _, p := range m.sample.ranges {
		if p.end > p.first {
			parts = append(parts, p)
		}
	}
	all := len(parts)
	if m.sample.total <= most {
		return parts, m.sample.total
	}
	slices.SortStableFunc(parts, func(a, b partitionRange) int { return cmp.Compare(b.end-b.first, a.end-a.first) })
	perReading := max(1, perRecord/m.sensors)
	want := int64(depth * max(1, m.keys/max(1, m.sample.partitions())) / perReading)
	n := max(1, min(all, int(most/max(1, want)), 16))
	h.whole = false
	parts = parts[:n]
	slices.SortFunc(parts, func(a, b partitionRange) int { return cmp.Compare(a.tp.Partition, b.tp.Partition) })
	return parts, most / int64(n)
}

// seriesHistory is what is known of a series while a partition is read.
type seriesHistory struct {
	at     int32 // index into names, -1: its samples are not kept
	newest int64
	seen   bool
	valued bool
	recent []place // the last recall samples, as a ring
	next   int     // in recent
}

// recall is the number of samples of a series that a later one is compared with, to find those that are sent again.
const recall = 16

// place is the time of a sample with a sum of its values.
type place struct {
	time   int64
	values uint64
}

// met notes a sample and reports whether one of the last had its time, and whether one of these had its values.
func (s *seriesHistory) met(t int64, values []float64) (double, twin bool) {
	at := place{time: t, values: 14695981039346656037} // FNV-1a, of words
	for _, v := range values {
		at.values = (at.values ^ math.Float64bits(v)) * 1099511628211
	}
	for _, p := range s.recent {
		double, twin = double || p.time == t, twin || p == at
	}
	if len(s.recent) < recall {
		s.recent = append(s.recent, at)
	} else {
		s.recent[s.next] = at
		s.next = (s.next + 1) % recall
	}
	return double, twin
}

// read reads the records of a partition.
func (h *history) read(ctx context.Context, f *kafka.Fetcher, dec schemas.Decoder, s *stretch, parts int) error {
	room := h.m.c.Samples / parts / max(1, h.width/4)
	keep := max(leastSeries, h.m.c.Samples/depth) / parts
	size := h.m.c.Bytes / int64(parts)
	ks, err := h.c.KeystateConfig()
	if err != nil {
		return err
	}
	split := schemas.NewSplitter(h.c.Series())
	known := map[string]*seriesHistory{}
	newest := int64(schemas.NoTime)
	reading := schemas.Reading{Partition: s.tp.Partition}
	var clocks processor.SeriesClocks
	err = f.ReadRange(ctx, s.tp, s.from, s.end, func(r *record.Record) (bool, error) {
		header := r.Header
		if r.HeaderCount == 0 {
			header = nil
		}
		h.records++
		size -= int64(len(r.Key) + len(r.Value))
		if err := h.decode(ctx, dec, r, header, &reading); err != nil {
			var de *schemas.DecodeError
			if errors.As(err, &de) && de.Retry && !de.Absent {
				return false, err
			}
			if h.bad++; h.bad == 1 {
				h.why = fmt.Sprintf("%s at offset %d: %s", s.tp, r.Offset, strings.TrimPrefix(err.Error(), "schemas: "))
			}
			return size > 0, nil
		}
		if reading.Len() == 0 { // it is left out
			return size > 0, nil
		}
		if newest != schemas.NoTime {
			h.jump = max(h.jump, reading.Time-newest)
		}
		clocks.Add(reading.Key, reading.Time)
		for i := range split.Samples(&reading) {
			key, t, values := split.Sample(&reading, i)
			o := known[string(key)]
			if o == nil {
				o = &seriesHistory{at: -1}
				if len(s.names) < max(1, keep) {
					o.at = int32(len(s.names))
					s.names = append(s.names, append([]byte{}, key...))
				}
				known[string(key)] = o
			}
			if !o.valued && slices.ContainsFunc(values, func(v float64) bool { return v == v }) {
				o.valued = true
				h.valued++
			}
			h.observe(o, t, newest, values)
			newest = max(newest, t)
			if o.at >= 0 {
				s.samples = append(s.samples, historic{o.at, t, reading.Time - t, ks.Place(r.Offset, i), append([]float64(nil), values...)})
			}
			h.samples++
		}
		return size > 0 && len(s.samples) < max(1, room), nil
	})
	if series, by, ok := clocks.Ahead(max(h.c.Keys.Lateness, time.Minute)); ok && h.ahead == "" {
		h.ahead, _ = processor.AheadText(series, by)
	}
	h.series += len(known)
	if size <= 0 || len(s.samples) >= room {
		h.whole = false
	}
	var gone *kafka.OffsetOutOfRangeError
	if errors.As(err, &gone) {
		h.whole = false
		return nil
	}
	return err
}

func (h *history) decode(ctx context.Context, dec schemas.Decoder, r *record.Record, header func(string) ([]byte, bool),
	to *schemas.Reading) error {
	ms := cycle.Timestamp(r)
	if err := dec.Decode(ctx, r.Key, r.Value, ms, header, to); err != nil {
		return err
	}
	if f := h.c.Keys.MaxFuture; f > 0 && ms >= 0 && to.Time > ms*1000+f.Microseconds() {
		return fmt.Errorf("the event time %s is more than %v after Kafka's timestamp (ODRADEK_MAX_FUTURE)",
			time.UnixMicro(to.Time).UTC().Format(time.RFC3339), f)
	}
	return nil
}

// observe takes a sample into account; newest is the largest time of its partition before.
func (h *history) observe(o *seriesHistory, t, newest int64, values []float64) {
	double, twin := o.met(t, values)
	if twin { // it says nothing of the order
		h.twins++
		return
	}
	behind := int64(0)
	if newest != schemas.NoTime {
		behind = max(0, newest-t)
	}
	h.furthest = max(h.furthest, behind)
	at := 0
	for at < len(round) && behind > round[at].Microseconds() {
		at++
	}
	h.behind[at]++
	if o.seen {
		switch {
		case double || t == o.newest:
			h.doubles++
		case t < o.newest:
			h.unsorted++
		default:
			h.pauses = append(h.pauses, t-o.newest)
			h.longest = max(h.longest, t-o.newest)
		}
	}
	if !o.seen || t >= o.newest {
		o.seen, o.newest = true, t
	}
}

// late returns how many samples are further behind than a bound.
func (h *history) late(bound time.Duration) (n int) {
	for i, k := range h.behind {
		if i == len(round) || round[i] > bound {
			n += k
		}
	}
	return n
}

// stateSettings returns lateness, duplicates, silence and the largest jump.
func (h *history) stateSettings() (list []settingsfile.Setting) {
	lateness := time.Duration(0)
	comment := fmt.Sprintf("All of %s were in the order of their times within their series.", count(h.samples, "sample"))
	if h.unsorted > 0 {
		least, lost := time.Duration(0), h.unsorted
		for _, d := range round {
			if d > 24*time.Hour {
				break
			}
			if n := h.late(d); n < lost {
				if least, lost = d, n; n <= h.samples/1000 {
					break
				}
			}
		}
		comment = fmt.Sprintf("%s of %s were older than the newest of their series (%s), the latest %s behind the newest of its partition.",
			count(h.unsorted, ""), count(h.samples, "sample"), share(h.unsorted, h.samples), span(h.furthest))
		switch {
		case least == 0 || h.unsorted <= h.samples/1000:
			comment += " They would be late; any lateness holds all samples back for as long."
		default:
			lateness = least
			comment += fmt.Sprintf(" With %s %s would be late, without any %s.", text(lateness), share(lost, h.samples),
				share(h.unsorted, h.samples))
		}
	}
	if h.rekey && lateness < leastRekeyed {
		lateness = leastRekeyed
		comment += " REKEY needs some, because it interleaves partitions."
	}
	if h.rekey {
		comment += " Partitions may be further apart than that, above all while history is read: what is then late is in the late topic; more " +
			"lateness, or start: latest, avoids it."
	}
	list = append(list, settingsfile.Setting{Key: "lateness", Value: text(lateness), Comment: comment})
	if h.twins > h.samples/1000 && h.twins >= leastTwins && h.twins > h.doubles {
		list = append(list, settingsfile.Setting{Key: "duplicates", Value: "drop", Comment: fmt.Sprintf("%s of %s have the series, time and "+
			"values of a sample shortly before: the producer sends them again.", share(h.twins, h.samples), count(h.samples, "sample"))})
	} else if h.doubles > h.samples/50 {
		h.m.s.head = append(h.m.s.head, fmt.Sprintf("%s of %s have the series and time of a sample shortly before, with other "+
			"values: is a part of the key missing, or the time too coarse?", share(h.doubles, h.samples), count(h.samples, "sample")))
	}
	list = append(list, h.intervalsInstead()...)
	silence := time.Duration(0)
	middle := median(h.pauses)
	if h.ahead != "" {
		h.m.s.head = append(h.m.s.head, strings.ToUpper(h.ahead[:1])+h.ahead[1:]+": correct it.")
	}
	if len(h.pauses) >= 20 {
		set := settingsfile.Setting{Key: "silence", Value: text(roundUp(max(10*middle, 2*h.longest, lateness.Microseconds())))}
		seen := fmt.Sprintf("A series has a sample each %s in the middle; the longest pause is %s.", span(middle), span(h.longest))
		set.Off = true
		switch {
		case h.ahead != "":
			set.Comment = seen + " By the clock that is ahead the other series would seem silent; when it is right:"
		case h.longest > 50*middle:
			set.Comment = seen + " Samples come too irregularly for an alarm on silence; this one would have had none:"
		default:
			set.Off = false
			set.Comment = seen + " Where all series of a partition stop, idle_after has them become silent, too."
			silence = roundUp(max(10*middle, 2*h.longest, lateness.Microseconds()))
		}
		list = append(list, set)
		if idle := roundUp(max(silence.Microseconds(), 2*h.jump)); silence > 0 && idle <= mostIdle {
			list = append(list, settingsfile.Setting{Key: "idle_after", Value: text(idle), Comment: fmt.Sprintf("Where nothing comes any more, "+
				"no record moves the clock of the partition; its longest pause is %s. Records that are delayed on their way for longer than "+
				"this may be late.", span(h.jump))})
		}
	}
	jump := 24 * time.Hour
	if d := max(lateness, silence); d > 0 {
		jump = max(10*time.Minute, 10*d)
	}
	comment = fmt.Sprintf("The longest pause of a partition is %s.", span(h.jump))
	if least := roundUp(3 * h.jump); jump < least {
		jump = least
		comment += " The default would hold records back after such a pause."
	}
	list = append(list, settingsfile.Setting{Key: "max_jump", Value: text(jump), Comment: comment + " A record whose time is further ahead " +
		"waits until others agree."})
	h.state = list
	return list
}

// samplesOf returns how many samples the series that are kept have, in the middle.
func (h *history) samplesOf() int {
	var all []int
	for _, s := range h.stretch {
		n := make([]int, len(s.names))
		for i := range s.samples {
			n[s.samples[i].series]++
		}
		all = append(all, n...)
	}
	return median(all)
}

// kept returns the number of series that the detectors are run on, and their samples.
func (h *history) kept() (series, samples int) {
	for _, s := range h.stretch {
		series += len(s.names)
		samples += len(s.samples)
	}
	return series, samples
}

// sample returns a sample as the worker folds it.
func (s *stretch) sample(i int) state.Sample {
	x := &s.samples[i]
	return state.Sample{Key: s.names[x.series], Time: x.time, Ahead: x.ahead, Offset: x.offset, Values: x.values}
}
