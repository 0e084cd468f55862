package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/processor/state/series"
	"odradek/schemas"
	"odradek/schemas/formats"
	"odradek/schemas/registry"
)

// registry checks that the schema registry answers. A start survives its outage where
// the ids of the outputs' schemas are in the cache.
func (e *examination) registry(ctx context.Context) {
	reg := e.reg
	if reg == nil {
		return
	}
	if err := reg.CacheFault(); err != nil {
		e.r.Warn("schema cache", err.Error(), "make the folder writable, set "+config.Prefix+"SCHEMA_REGISTRY_CACHE_DIR to another, or to off")
	}
	err := reg.Ping(ctx)
	if err == nil {
		e.r.OK("schema registry", "%s: reached", config.RedactURLs(strings.Join(e.c.Registry.URLs, ",")))
		return
	}
	if reg.Glue() {
		e.r.Findings = append(e.r.Findings, Finding{Level: LevelFault, What: "schema registry", Detail: err.Error(), err: err})
		e.reg = nil
		return
	}
	// A start needs less than a list of all subjects.
	for _, out := range OutputSchemas(e.c) {
		if _, lookup := reg.Lookup(ctx, out.Subject, out.Schema); lookup != nil && !errors.Is(lookup, registry.ErrUnknownSchema) {
			e.r.Findings = append(e.r.Findings, Finding{Level: LevelFault, What: "schema registry", Detail: err.Error(), err: err})
			e.reg = nil
			return
		}
	}
	w := Finding{Level: LevelWarn, What: "schema registry", Detail: err.Error(), Fix: "the schemas of the outputs are known from the cache " +
		"or from other calls: a start is possible, and records of schemas that were never seen wait", suspect: true}
	e.r.Findings = append(e.r.Findings, w)
	e.down = true
}

// schemas checks the mapping against the newest schema of each input topic, and
// that the outputs' schemas can be registered. The records decide whether a missing field is
// a fault (judge).
func (e *examination) schemas(ctx context.Context) {
	e.unfit = map[string][]Finding{}
	if !e.reg.HasIDs() || e.down {
		return
	}
	for _, in := range e.inputs {
		subject := schemas.Subject(in.Name)
		s, err := e.reg.Latest(ctx, subject)
		switch {
		case e.c.ForTopic(in.Name).Mapping.SchemaFile != "":
			// The file is the schema of records without one.
		case errors.Is(err, registry.ErrUnknownSchema):
			e.r.Warn("subject "+subject, "the registry has no such subject",
				"no fault if the topic's schemas have subjects by record name, or none; its records will show")
		case err != nil:
			e.r.Warn("subject "+subject, "cannot be read: "+err.Error(), "")
		default:
			e.unfit[in.Name] = fits(e.c.ForTopic(in.Name), fmt.Sprintf("subject %s version %d", subject, s.Version), s, e.r)
		}
	}
	for _, out := range OutputSchemas(e.c) {
		subject := out.Subject
		switch ok, reasons, err := e.reg.Compatible(ctx, subject, out.Schema); {
		case err != nil:
			e.r.Warn("subject "+subject, "compatibility of the schema of "+out.What+" is not known: "+err.Error(), "")
		case !ok:
			e.r.Fault("subject "+subject, "it does not take the schema of "+out.What+": "+strings.Join(reasons, "; "),
				"use another topic ("+config.Prefix+out.Setting+") or change the subject's compatibility")
		}
	}
}

// fits returns which paths of the mapping of c a schema lacks, and reports it where it has all.
func fits(c *config.Config, what string, s *schemas.Schema, r *Report) (faults []Finding) {
	fields := "VALUE_FIELDS"
	if c.Series() != nil {
		fields = "SERIES_FIELDS"
	}
	for _, err := range formats.Check(c.Mapping.Format, c.RecordMapping(), s) {
		faults = append(faults, Finding{Level: LevelFault, What: what, Detail: strings.TrimPrefix(err.Error(), "schemas: "),
			Fix: "correct " + c.MappingPrefix() + "KEY_FIELD, _TIME_FIELD or _" + fields})
	}
	if len(faults) == 0 {
		detail := "has all mapped fields"
		n := len(c.Series())
		switch {
		case c.HasWildcard():
			detail = "has the path of " + strings.Join(c.Series(), ", ") + "; each number below it is a series"
		case n > 0 && c.HasReadings():
			detail += fmt.Sprintf("; a record has any number of readings, each of %d samples, of as many series", n)
		case n > 0:
			detail += fmt.Sprintf("; a record is %d samples, of as many series", n)
		case c.HasReadings():
			detail += "; a record has any number of readings, each a sample"
		}
		r.OK(what, "%s", detail)
	}
	return faults
}

// The limits of the sample of live records.
const (
	samplePartitions = 16
	sampleRecords    = 25 // of a partition, the newest
	sampleLimit      = 10 * time.Second
)

// FewRecords is too small a sample to judge a topic: run starts where fewer records cannot be
// read, even if none can.
const FewRecords = 5

// liveSample describes a few records of a topic.
type liveSample struct {
	records int
	read    int               // that can be read
	unread  int               // that the group would read, and cannot
	started bool              // the group has committed offsets in the topic, or may have
	failed  map[string]int    // by class, with the field of an event that is none of a grid
	example map[string]string // of those
	schemas map[int32]bool
	future  int                       // that are too far ahead of Kafka's timestamp
	ahead   int                       // of those, that the group would read
	clock   processor.ClockComparison // of event times with Kafka's timestamps

	clockWrong, clockFix string // what it has found

	equal     config.EqualSamples
	otherKey  int              // series key differs from the record key
	nullKey   int              // no record key
	places    map[string]int32 // partition in which a series was seen
	scattered string           // a series that was seen in two
}

// atFault reports whether the unreadable records are a fault of the configuration: a group is
// about to begin with a topic of which it could read no record, so that run would turn all
// of them into dead letters and look healthy. Bad input does not stop a group that has
// begun, nor do a few bad records after good ones: those are dead letters.
func (s *liveSample) atFault() bool { return !s.started && s.read == 0 && s.unread >= FewRecords }

// records decodes a few of the newest records of each input topic.
func (e *examination) records(ctx context.Context) {
	if e.reg == nil && len(e.c.Registry.URLs) > 0 {
		return // without an answer no record can be judged
	}
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	f := kafka.NewFetcher(e.client, kafka.FetchConfig{ReadCommitted: true, MaxWait: 200 * time.Millisecond})
	defer f.Close()
	for _, in := range e.inputs {
		dec, err := e.c.ForTopic(in.Name).NewDecoder(e.reg)
		if err != nil {
			continue // a fault of the configuration, reported there
		}
		s, err := e.sample(ctx, f, dec, in)
		if err != nil {
			e.r.Warn("records of "+in.Name, "cannot be read: "+err.Error(), "")
			e.r.Findings = append(e.r.Findings, e.unfit[in.Name]...)
			continue
		}
		e.judge(in, s)
	}
}

// bounds returns the partitions of a topic that are sampled, with the offsets that their logs begin at and are stable up to.
func (e *examination) bounds(ctx context.Context, in kafka.TopicInfo) (tps []kafka.TP, first, ends map[kafka.TP]int64, err error) {
	for p := range min(in.Partitions, samplePartitions) {
		tps = append(tps, kafka.TP{Topic: in.Name, Partition: int32(p)})
	}
	if first, err = e.client.Offsets.ListOffsets(ctx, tps, kafka.Earliest); err != nil {
		return nil, nil, nil, err
	}
	if ends, err = e.client.Offsets.ListStable(ctx, tps); err != nil {
		return nil, nil, nil, err
	}
	return tps, first, ends, nil
}

func (e *examination) sample(ctx context.Context, f *kafka.Fetcher, dec schemas.Decoder, in kafka.TopicInfo) (*liveSample, error) {
	s := &liveSample{
		equal:   config.EqualSamples{},
		failed:  map[string]int{},
		example: map[string]string{},
		schemas: map[int32]bool{},
		places:  map[string]int32{},
	}
	tps, first, ends, err := e.bounds(ctx, in)
	if err != nil {
		return nil, err
	}
	begins, err := e.begins(ctx, tps, first, ends)
	s.started = begins == nil
	if err != nil {
		return nil, err
	}
	c := e.c.ForTopic(in.Name)
	var empty *state.State
	if ks, err := c.KeystateConfig(); err == nil {
		empty = state.New(ks)
	}
	var reading schemas.Reading
	for _, tp := range tps {
		reading.Partition = tp.Partition
		var clocks processor.SeriesClocks
		// Markers and aborted records may fill the last offsets, so a partition
		// can show fewer records than asked for, or none.
		from := max(first[tp], ends[tp]-sampleRecords)
		err := f.ReadRange(ctx, tp, from, ends[tp], func(rec *record.Record) (bool, error) {
			s.records++
			ms := cycle.Timestamp(rec)
			unread := func(class, why string) {
				if class != schemas.ClassTombstone && !s.started && rec.Offset >= begins[tp] {
					s.unread++
				}
				s.failed[class]++
				s.example[class] = fmt.Sprintf("%s at offset %d: %s", tp, rec.Offset, why)
			}
			if err := dec.Decode(ctx, rec.Key, rec.Value, ms, rec.Header, &reading); err != nil {
				class := "malformed"
				var de *schemas.DecodeError
				if errors.As(err, &de) {
					class = de.Class
					if de.Retry && !de.Absent {
						s.records--
						return true, nil // the registry cannot be asked
					}
				}
				unread(class, strings.TrimPrefix(err.Error(), "schemas: "))
				return true, nil
			}
			for i := range reading.Len() {
				key, _, values := reading.At(i)
				if empty == nil {
					break
				}
				if err := empty.Misplaced(key, values); err != nil {
					unread(err.Class+" of field "+err.Field, err.Error())
					return true, nil
				}
			}
			s.read++
			s.schemas[reading.Schema] = true
			if reading.Len() == 0 {
				return true, nil
			}
			if finding, fix := s.clock.Add(reading.Time, ms, c.Mapping.TimeUnit); finding != "" {
				s.clockWrong, s.clockFix = finding, fix
			}
			if m := c.Keys.MaxFuture; m > 0 && reading.Time > ms*1000+m.Microseconds() {
				if s.future++; !s.started && rec.Offset >= begins[tp] {
					s.ahead++
				}
			}
			switch {
			case rec.Key == nil:
				s.nullKey++
			case !bytes.Equal(reading.Key, rec.Key):
				s.otherKey++
			}
			clocks.Add(reading.Key, reading.Time)
			for i := range reading.Len() {
				name, _, values := reading.At(i)
				key := string(name)
				s.equal.Add(name, values)
				if place, seen := s.places[key]; !seen {
					s.places[key] = tp.Partition
				} else if place != tp.Partition {
					s.scattered = key
				}
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
		if name, by, ok := clocks.Ahead(max(c.Keys.Lateness, time.Minute)); ok && s.clockWrong == "" {
			s.clockWrong, s.clockFix = processor.AheadText(name, by)
		}
	}
	return s, nil
}

// begins returns where a group without offsets in the topic begins, by ODRADEK_START; nil
// for a group with offsets, or if that is unknown, because they may wait for the open
// transaction of a dead worker.
func (e *examination) begins(ctx context.Context, tps []kafka.TP, first, ends map[kafka.TP]int64) (map[kafka.TP]int64, error) {
	cctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	committed, err := committedOffsets(cctx, e.c, e.client, tps)
	if err != nil || slices.ContainsFunc(tps, func(tp kafka.TP) bool { return committed[tp].Offset >= 0 }) {
		return nil, nil
	}
	switch at, err := e.c.StartAt(); {
	case err != nil || at == kafka.Latest:
		return ends, nil
	case at == kafka.Earliest:
		return first, nil
	default:
		offs, err := e.client.Offsets.ListOffsets(ctx, tps, at)
		for tp, off := range offs {
			if off < 0 { // no record that late yet
				offs[tp] = ends[tp]
			}
		}
		return offs, err
	}
}

// judge reports on a topic's sample, and on the newest schema, unless the records show that
// another one is in use.
func (e *examination) judge(in kafka.TopicInfo, s *liveSample) {
	what := "records of " + in.Name
	for _, f := range e.unfit[in.Name] {
		if s.read > 0 {
			f.Level, f.Detail, f.suspect = LevelWarn, f.Detail+"; but newer records can be read", true
		}
		e.r.Findings = append(e.r.Findings, f)
	}
	if s.records == 0 {
		e.r.Warn(what, "there are none to check", "")
		return
	}
	before := len(e.r.Findings)
	classes := make([]string, 0, len(s.failed))
	for c := range s.failed {
		classes = append(classes, c)
	}
	slices.Sort(classes)
	for _, c := range classes {
		detail := fmt.Sprintf("%d of %d would be dead letters (%s), such as %s", s.failed[c], s.records, c, s.example[c])
		f := Finding{Level: LevelWarn, What: what, Detail: detail, suspect: s.read == 0}
		if s.read == 0 {
			f.Fix = unreadableFix(c, e.c.ForTopic(in.Name).MappingPrefix())
		}
		lacks := len(e.unfit[in.Name]) > 0 && (c == schemas.ClassMissingField || c == schemas.ClassBadType) // reported of the schema
		if s.atFault() && !lacks {
			f.Level = LevelFault
			f.Fix += "; to begin behind them set " + config.Prefix + "START=latest"
		}
		e.r.Findings = append(e.r.Findings, f)
	}
	if s.future > 0 {
		f := Finding{
			Level: LevelWarn,
			What:  what,
			Detail: fmt.Sprintf(
				"%d of %d have an event time more than %v ahead: they would be dead letters",
				s.future,
				s.records,
				e.c.ForTopic(in.Name).Keys.MaxFuture,
			),
			Fix: "see " + e.c.ForTopic(in.Name).MappingPrefix() + "TIME_FIELD, _TIME_UNIT, _MAX_FUTURE",
		}
		if s.future == s.read && s.read >= FewRecords { // none is left; a group that is about to begin does not start, as with unreadable ones
			f.Level, f.Starts = LevelFault, s.ahead < FewRecords
		}
		e.r.Findings = append(e.r.Findings, f)
	}
	if s.clockWrong != "" {
		e.r.Warn(what, s.clockWrong, s.clockFix)
	}
	if in.Partitions > 1 && !e.c.Cycle.Rekey && !e.c.ForTopic(in.Name).RecordMapping().KeyOfPartition() {
		switch {
		case s.scattered != "":
			e.r.wrong(what, "a series lies in several partitions, so each has a part of it only",
				"set "+config.Prefix+"REKEY=true and "+config.Prefix+"LATENESS, or key the topic by series")
		case s.nullKey > 0:
			e.r.wrong(what, fmt.Sprintf("%d of %d have no record key: a series' records may go to any partition", s.nullKey, s.records),
				"set "+config.Prefix+"REKEY=true and "+config.Prefix+"LATENESS, or key the topic by series")
		case s.otherKey > 0:
			e.r.Warn(what, fmt.Sprintf("%d of %d have a record key that is not the series key; no series was seen in two partitions",
				s.otherKey, s.records),
				"if the record key does not decide the series, set "+config.Prefix+"REKEY=true and "+config.Prefix+"LATENESS")
		}
	}
	if ks, err := e.c.ForTopic(in.Name).KeystateConfig(); err == nil {
		for i := range ks.Detectors {
			d := &ks.Detectors[i]
			if text := s.equal.Crowded(d, ks.Windows[d.Window].Columns); text != "" {
				e.r.Warn("detector "+d.Name, text, "")
			}
		}
	}
	if len(e.r.Findings) == before {
		ids := make([]string, 0, len(s.schemas))
		for id := range s.schemas {
			if id >= 0 {
				ids = append(ids, strconv.Itoa(int(id)))
			}
		}
		slices.Sort(ids)
		schemaIDs := ""
		if len(ids) > 0 {
			schemaIDs = ", schema ids " + strings.Join(ids, ",")
		}
		e.r.OK(what, "%d checked, all can be read%s", s.records, schemaIDs)
	}
}

// unreadableFix returns the remedy where no record can be read for a reason of this class; prefix begins the settings of
// the topic's mapping.
func unreadableFix(class, prefix string) string {
	switch class, _, _ = strings.Cut(class, " "); class {
	case series.OutsideGrid:
		return "correct GRID_BOX of the detector, or x and y of its FIELDS"
	case series.BadCount:
		return "correct FIELDS of the detector: the third is a count, and the fourth a baseline"
	case schemas.ClassMagic, schemas.ClassTruncated, schemas.ClassTrailingBytes, schemas.ClassMalformed:
		return "correct " + prefix + "TOPICS or _FORMAT, have the producers write with a schema registry's serializer, " +
			"or name the schema of bare Avro in " + prefix + "SCHEMA_FILE"
	case schemas.ClassBadTime:
		return "correct " + prefix + "TIME_FIELD or _TIME_UNIT; texts without an offset need _TIME_ZONE, and others than RFC 3339 _TIME_LAYOUT"
	case schemas.ClassBadType:
		return "correct " + prefix + "KEY_FIELD, _TIME_FIELD or _VALUE_FIELDS; _TEXT_VALUES=number reads numbers in quotes, _DECIMALS " +
			"decimals in base64"
	case schemas.ClassExpression:
		return "correct " + prefix + "ONLY_IF or _COMPUTE"
	case schemas.ClassTombstone:
		return "set " + prefix + "TOMBSTONES=skip if records without a value are no fault"
	case schemas.ClassUnknownSchema:
		return "correct " + config.Prefix + "SCHEMA_REGISTRY_URL: it has to be the registry that the producers use"
	}
	return "see the mapping settings, " + prefix + "KEY_FIELD, _TIME_FIELD, _TIME_UNIT, _VALUE_FIELDS; worker try shows each record"
}
