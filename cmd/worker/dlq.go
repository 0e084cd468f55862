package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/formats"
	"odradek/schemas/registry"
)

const dlqAbout = `Shows the dead letters of a group, or sends them again. The worker may run meanwhile.

  list     a line for each letter, then their number by reason
  show     headers, coordinates, reason and key, and the payload decoded as far as it can be
  redrive  writes the records to the partition that they came from, or to another topic, each once however often the command is
           interrupted or repeated; letters that still cannot be read are left where they are`

const dlqExamples = `  worker dlq list -reason unknown_schema,magic -from 2026-01-31T08:00:00Z
  worker dlq show -at 3/4711
  worker dlq redrive -reason unknown_schema -dry-run   # says how many can be read by now
  worker dlq redrive -reason unknown_schema            # asks; -yes does not
  worker dlq redrive -reason magic -schema latest      # puts the id of the topic's newest schema before each payload
  worker dlq redrive -to repaired -all                 # all as they are, to another topic`

// dlqOptions are the flags of `dlq`.
type dlqOptions struct {
	action   string
	reasons  string
	at       string
	from, to string
	asJSON   bool
	schema   string
	dryRun   bool
	yes      bool
	all      bool
	timeout  time.Duration
	filter   admin.Filter
	most     int
	target   string
	attempts int
	again    bool
}

func (o *dlqOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.reasons, "reason", "", "only these reasons, separated by commas; docs/operations/dead-letters.md lists them")
	fs.StringVar(&o.filter.Topic, "topic", "", "only records of this input topic")
	fs.Func("partition", "only records of this input partition", func(s string) error {
		n, err := strconv.ParseInt(s, 10, 32)
		o.filter.Partition = int32(n)
		if n < 0 {
			return errors.New("a partition is at least 0")
		}
		return err
	})
	fs.StringVar(&o.at, "at", "", "only the letter at this partition and offset of the dead-letter topic, like 3/4711")
	fs.StringVar(&o.from, "from", "", "only records of this time and later, like 2026-01-31T08:00:00Z; it is the record's timestamp in Kafka")
	fs.StringVar(&o.to, "until", "", "only records before this time")
	fs.IntVar(&o.most, "limit", 0, "at most this many letters; 0: list 100, show 10, redrive all")
	fs.BoolVar(&o.asJSON, "json", false, "list, show: one JSON object a line; redrive: one at the end")
	fs.StringVar(&o.target, "to", "", "redrive: write to this topic, which is created where it is missing; default: where each "+
		"record came from")
	fs.StringVar(&o.schema, "schema", "", "redrive: a schema id, or latest for the newest of the input topic's subject: "+
		"all payloads name this schema instead of theirs; not with AWS Glue as the registry")
	fs.BoolVar(&o.all, "all", false, "redrive: also records that could not be read now either")
	fs.BoolVar(&o.again, "again", false, "redrive: also what was sent there before; interrupted, it begins from the start")
	fs.IntVar(&o.attempts, "attempts", 3, "redrive: leave records that were sent this often and became dead letters each time")
	fs.BoolVar(&o.dryRun, "dry-run", false, "redrive: only say what would be done")
	fs.BoolVar(&o.yes, "yes", false, "redrive: "+yesHelp+"; without it what would be done is printed first")
	fs.DurationVar(&o.timeout, "timeout", time.Hour, "time limit")
}

// check completes the options and returns what is wrong with them.
func (o *dlqOptions) check() (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	switch o.action {
	case "":
		wrong("give an action: list, show or redrive; worker dlq -h has help")
	case "list", "show", "redrive":
	default:
		wrong("no action %q; use list, show or redrive", o.action)
	}
	if o.reasons != "" {
		o.filter.Classes = strings.Split(o.reasons, ",")
	}
	for _, t := range []struct {
		name, text string
		at         *time.Time
	}{{"from", o.from, &o.filter.From}, {"until", o.to, &o.filter.To}} {
		if t.text == "" {
			continue
		}
		var err error
		if *t.at, err = time.Parse(time.RFC3339Nano, t.text); err != nil {
			wrong("-%s %q is not a time like 2026-01-31T08:00:00Z", t.name, t.text)
		}
	}
	if o.at != "" {
		p, offset, _ := strings.Cut(o.at, "/")
		n, err := strconv.ParseInt(p, 10, 32)
		at, err2 := strconv.ParseInt(offset, 10, 64)
		if err != nil || err2 != nil || n < 0 || at < 0 {
			wrong("-at %q is not a partition and an offset, like 3/4711", o.at)
		}
		o.filter.At, o.filter.AtOffset = &kafka.TP{Partition: int32(n)}, at
	}
	if id, err := strconv.ParseInt(o.schema, 10, 32); o.schema != "" && o.schema != "latest" && (err != nil || id <= 0) {
		wrong("-schema %q is not an id of the registry, nor latest", o.schema)
	}
	if o.most < 0 || o.attempts < 1 {
		wrong("-limit is at least 0 and -attempts at least 1")
	}
	if o.action != "redrive" && (o.target != "" || o.schema != "" || o.all || o.again || o.dryRun) {
		wrong("-to, -schema, -all, -again and -dry-run go with redrive")
	}
	return faults
}

func (t terminal) dlq(ctx context.Context, args []string) int {
	o := dlqOptions{filter: admin.Filter{Partition: -1}}
	fs := t.flags("dlq list|show|redrive", dlqAbout, dlqExamples)
	o.flags(fs)
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.action, args = args[0], args[1:]
	}
	if code, done := parse(fs, args); done {
		return code
	}
	if faults := o.check(); len(faults) > 0 {
		for _, f := range faults {
			fmt.Fprintln(t.err, "worker dlq:", f)
		}
		return exitUsage
	}
	c, code, ok := t.configFor()
	if !ok {
		return code
	}
	if fault := o.targetFault(c); fault != "" {
		fmt.Fprintln(t.err, "worker dlq:", fault)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := t.runDLQ(ctx, c, &o); err != nil {
		return t.fail(err)
	}
	return exitOK
}

// targetFault says why -to cannot be written to.
func (o *dlqOptions) targetFault(c *config.Config) string {
	if o.target == "" {
		return ""
	}
	if fault := config.TopicFault(o.target); fault != "" {
		return fmt.Sprintf("-to: %q %s", o.target, fault)
	}
	dlq := c.Output.Topics[cycle.DeadLetters]
	if slices.Contains(c.Output.Topics[:], o.target) || o.target == admin.LedgerTopic(dlq) {
		return fmt.Sprintf("-to: %s is where the group itself writes; name an input topic or a new one", o.target)
	}
	return ""
}

// dlqTool has what the actions need.
type dlqTool struct {
	t        terminal
	c        *config.Config
	o        *dlqOptions
	client   *kafka.Client
	registry *registry.Client            // nil without one
	decoders map[string]*formats.Decoder // by the name of the mapping
	topic    *admin.Topic
}

func (t terminal) runDLQ(ctx context.Context, c *config.Config, o *dlqOptions) (err error) {
	d := &dlqTool{t: t, c: c, o: o}
	var closeBoth func() error
	if d.client, d.registry, closeBoth, err = backtestCluster(ctx, c); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeBoth()) }()
	d.decoders = map[string]*formats.Decoder{}
	for _, settings := range c.Mappings() {
		if d.decoders[settings.MappingName()], err = settings.NewDecoder(d.registry); err != nil {
			return err
		}
	}
	if _, err := admin.FindTopics(ctx, c, d.client.Admin); err != nil {
		return err
	}
	if d.topic, err = admin.OpenDeadLetters(ctx, d.client, c.Output.Topics[cycle.DeadLetters]); err != nil {
		return err
	}
	defer d.topic.Close()
	switch o.action {
	case "list":
		return d.list(ctx)
	case "show":
		return d.show(ctx)
	}
	return d.redrive(ctx)
}

// letterLine is a line of `dlq list -json`, and the beginning of one of `dlq show -json`.
type letterLine struct {
	Partition    int32        `json:"partition"` // of the dead-letter topic
	Offset       int64        `json:"offset"`
	Time         time.Time    `json:"time"`
	Reason       string       `json:"reason"`
	Field        string       `json:"field,omitempty"`
	Message      string       `json:"message"`
	Topic        string       `json:"source_topic"`
	From         int32        `json:"source_partition"`
	SourceOffset int64        `json:"source_offset"`
	Batch        *admin.Batch `json:"batch,omitempty"`
	Truncated    bool         `json:"truncated,omitempty"`
	Attempts     int          `json:"attempts,omitempty"` // how often the record was sent again before it became this letter
	Sent         []string     `json:"sent,omitempty"`     // topics that the letter was sent to
	Bytes        int          `json:"bytes"`              // of the value
}

func (d *dlqTool) line(l *admin.Letter) letterLine {
	return letterLine{l.TP.Partition, l.Offset, time.UnixMilli(l.Timestamp).UTC(), l.Class, l.Field, l.Message, l.Source.Topic,
		l.Source.Partition, l.SourceOffset, l.Batch, l.Truncated, l.Attempts, d.topic.Sent(l), len(l.Value)}
}

func (d *dlqTool) list(ctx context.Context) error {
	most := d.o.most
	if most == 0 {
		most = 100
	}
	enc := json.NewEncoder(d.t.out)
	enc.SetEscapeHTML(false)
	w := tabwriter.NewWriter(d.t.out, 0, 0, 2, ' ', 0)
	if !d.o.asJSON {
		fmt.Fprintln(w, "letter\ttime\treason\tfield\tsource\tbytes\tattempts\tsent to")
	}
	counts, all, sent := map[string]int{}, 0, 0
	err := d.topic.Each(ctx, &d.o.filter, func(l *admin.Letter) (bool, error) {
		counts[l.Class]++
		line := d.line(l)
		if len(line.Sent) > 0 {
			sent++
		}
		if all++; all > most {
			return true, nil
		}
		if d.o.asJSON {
			return true, enc.Encode(line)
		}
		fmt.Fprintf(w, "%d/%d\t%s\t%s\t%s\t%s/%d\t%d\t%d\t%s\n", line.Partition, line.Offset, line.Time.Format(time.RFC3339),
			plain(line.Reason), plain(line.Field), plain(l.Source.String()), line.SourceOffset, line.Bytes, line.Attempts,
			strings.Join(line.Sent, ","))
		return true, nil
	})
	if err := errors.Join(err, w.Flush()); err != nil {
		return err
	}
	fmt.Fprintf(d.t.err, "%d letters in %s", all, d.topic.Name)
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(d.t.err, ", %d %s", counts[class], class)
	}
	fmt.Fprintf(d.t.err, "; %d were sent again\n", sent)
	if all > most {
		fmt.Fprintf(d.t.err, "the first %d were listed; -limit %d lists all\n", most, all)
	}
	return nil
}

// letterText is a line of `dlq show -json`.
type letterText struct {
	letterLine
	Key      []byte            `json:"key"` // base64, as the value
	Value    []byte            `json:"value"`
	Headers  []letterHeader    `json:"headers"`
	SchemaID int32             `json:"schema_id"` // -1: none is named
	Decoded  []string          `json:"decoded,omitempty"`
	Stopped  string            `json:"decoding_stopped,omitempty"`
	Reading  *letterReading    `json:"reading,omitempty"` // what the worker would read now
	Refused  map[string]string `json:"refused,omitempty"` // or why it would not: class, message
}

type letterHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type letterReading struct {
	Key    string     `json:"key"`
	Time   time.Time  `json:"time"`
	Values []*float64 `json:"values"` // null: missing
}

func (d *dlqTool) show(ctx context.Context) error {
	most := d.o.most
	if most == 0 {
		most = 10
	}
	n := 0
	err := d.topic.Each(ctx, &d.o.filter, func(l *admin.Letter) (bool, error) {
		n++
		return n < most, d.showLetter(ctx, l)
	})
	if err == nil && n == 0 {
		fmt.Fprintf(d.t.err, "no such letter in %s\n", d.topic.Name)
	}
	return err
}

// decoderOf returns the decoder of a topic; of one that is no input, a decoder of the inputs.
func (d *dlqTool) decoderOf(topic string) *formats.Decoder {
	return cmp.Or(d.decoders[d.c.MappingOf(topic)], d.decoders[d.c.Mappings()[0].MappingName()])
}

func (d *dlqTool) showLetter(ctx context.Context, l *admin.Letter) error {
	s := letterText{letterLine: d.line(l), Key: l.Key, Value: l.Value, SchemaID: -1}
	decoder := d.decoderOf(l.Source.Topic)
	for _, h := range l.Headers {
		s.Headers = append(s.Headers, letterHeader{h.Key, h.Value})
	}
	if l.Batch == nil {
		var err error
		if s.Decoded, s.SchemaID, err = decoder.Text(ctx, l.Value, l.Header); err != nil {
			s.Stopped = err.Error()
		}
		r := schemas.Reading{Partition: l.Source.Partition}
		var refusal *schemas.DecodeError
		switch err := decoder.Decode(ctx, l.Key, l.Value, l.Timestamp, l.Header, &r); {
		case err == nil:
			s.Reading = &letterReading{Key: string(r.Key), Time: time.UnixMicro(r.Time).UTC()}
			for _, v := range r.Values {
				if math.IsNaN(v) {
					s.Reading.Values = append(s.Reading.Values, nil)
				} else {
					s.Reading.Values = append(s.Reading.Values, &v)
				}
			}
		case errors.As(err, &refusal):
			s.Refused = map[string]string{refusal.Class: err.Error()}
		default:
			return err
		}
	}
	if d.o.asJSON {
		enc := json.NewEncoder(d.t.out)
		enc.SetEscapeHTML(false)
		return enc.Encode(s)
	}
	d.print(&s)
	return nil
}

// shownBytes is how much of a value that cannot be decoded is printed.
const shownBytes = 256

func (d *dlqTool) print(s *letterText) {
	w := d.t.out
	fmt.Fprintf(w, "letter    %s/%d at offset %d\nreason    %s", d.topic.Name, s.Partition, s.Offset, plain(s.Reason))
	if s.Field != "" {
		fmt.Fprintf(w, ", field %s", plain(s.Field))
	}
	fmt.Fprintf(w, "\nmessage   %s\nsource    %s/%d at offset %d", plain(s.Message), plain(s.Topic), s.From, s.SourceOffset)
	if s.Batch != nil {
		fmt.Fprintf(w, ": a batch of %d records, offsets %d to %d", s.Batch.Records, s.Batch.First, s.Batch.Last)
	}
	fmt.Fprintf(w, "\ntime      %s\n", s.Time.Format(time.RFC3339Nano))
	if s.Attempts > 0 {
		fmt.Fprintf(w, "attempts  sent again %d times before it became this letter\n", s.Attempts)
	}
	if len(s.Sent) > 0 {
		fmt.Fprintf(w, "sent to   %s\n", strings.Join(s.Sent, ", "))
	}
	fmt.Fprintf(w, "key       %s\n", printable(s.Key))
	for _, h := range s.Headers {
		fmt.Fprintf(w, "header    %s: %s\n", plain(h.Key), printable(h.Value))
	}
	fmt.Fprintf(w, "value     %d bytes", len(s.Value))
	if s.SchemaID >= 0 {
		fmt.Fprintf(w, ", schema id %d", s.SchemaID)
	}
	if s.Truncated {
		fmt.Fprint(w, ", cut off")
	}
	fmt.Fprintln(w)
	for _, line := range s.Decoded {
		fmt.Fprintln(w, "  ", plain(line))
	}
	if s.Stopped != "" {
		fmt.Fprintln(w, "   not further:", plain(s.Stopped))
	}
	if s.Stopped != "" || s.Batch != nil {
		fmt.Fprintf(w, "   bytes: %x\n", s.Value[:min(len(s.Value), shownBytes)])
	}
	switch {
	case s.Reading != nil:
		fmt.Fprintf(w, "now       can be read: series %q, time %s\n", s.Reading.Key, s.Reading.Time.Format(time.RFC3339Nano))
	case s.Refused != nil:
		for class, message := range s.Refused {
			fmt.Fprintf(w, "now       still %s: %s\n", class, plain(message))
			if class == schemas.ClassMagic {
				fmt.Fprintln(w, "hint      if only the schema's id is missing: worker dlq redrive -reason magic -schema latest -dry-run")
			}
		}
	}
	fmt.Fprintln(w)
}

// plain replaces control characters, which a terminal would obey: anyone may have written the text to the topic.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// printable returns text quoted, and other bytes in hexadecimal.
func printable(b []byte) string {
	if b == nil {
		return "null"
	}
	if q := strconv.Quote(string(b)); !strings.Contains(q, `\x`) {
		return q
	}
	return fmt.Sprintf("0x%x", b)
}

func (d *dlqTool) redrive(ctx context.Context) error {
	codec, err := record.ParseCodec(d.c.Output.Compression)
	if err != nil {
		return err
	}
	r := &admin.Redrive{Client: d.client, Topic: d.topic, Filter: d.o.filter, Sources: d.c.Consumed(), To: d.o.target,
		Attempts: d.o.attempts, Again: d.o.again, Most: d.o.most, Dry: d.o.dryRun,
		MaxMessage: int(d.c.Output.MaxMessage), Codec: codec, Replication: d.c.Output.Replication, Partitions: 1}
	if !d.o.all {
		r.Reader = func(topic string) (schemas.Decoder, time.Duration) {
			return d.decoderOf(topic), d.c.ForTopic(topic).Keys.MaxFuture
		}
	}
	if r.Schema, r.First, err = d.schema(ctx); err != nil {
		return err
	}
	infos, err := d.client.Admin.Topics(ctx, r.Sources...)
	if err != nil {
		return fmt.Errorf("dlq: %w", err)
	}
	for _, info := range infos {
		r.Partitions = max(r.Partitions, info.Partitions)
	}
	if !d.o.dryRun && !d.o.yes {
		r.Dry = true
		would, err := r.Run(ctx)
		if err != nil {
			return err
		}
		d.report(&would, true)
		if would.Total() > 0 {
			where := "where they came from"
			if d.o.target != "" {
				where = "topic " + d.o.target
			}
			if err := d.t.agree(ctx, false, fmt.Sprintf("send %d records to %s?", would.Total(), where)); err != nil {
				return fmt.Errorf("dlq: %w", err)
			}
		}
		r.Dry = false
	}
	tally, err := r.Run(ctx)
	d.report(&tally, d.o.dryRun)
	return err
}

// schema returns the schema that -schema names, and whether it is one of Protobuf.
func (d *dlqTool) schema(ctx context.Context) (id int32, first bool, err error) {
	if d.o.schema == "" {
		return 0, false, nil
	}
	if !d.registry.HasIDs() {
		return 0, false, errors.New("dlq: -schema needs a registry with the Confluent API, whose schemas have ids: " +
			"ODRADEK_SCHEMA_REGISTRY_URL; with AWS Glue, redrive without -schema once Glue has the version that a record names, and have " +
			"the producer send again what names none")
	}
	var s *schemas.Schema
	if d.o.schema != "latest" {
		n, _ := strconv.ParseInt(d.o.schema, 10, 32)
		id = int32(n)
		s, err = d.registry.SchemaByID(ctx, id)
	} else {
		topic := d.o.filter.Topic
		inputs := d.c.Inputs()
		if topic == "" && len(inputs) != 1 {
			return 0, false, errors.New("dlq: -schema latest is of one input topic: name it with -topic")
		}
		if topic == "" {
			topic = inputs[0]
		}
		if s, err = d.registry.Latest(ctx, schemas.Subject(topic)); err == nil {
			id = s.ID
		}
	}
	if err != nil {
		return 0, false, fmt.Errorf("dlq: -schema %s: %w", d.o.schema, err)
	}
	return id, s.Type == "PROTOBUF", nil
}

// report prints what became of letters, or with would what would become of them.
func (d *dlqTool) report(t *admin.Tally, would bool) {
	if d.o.asJSON && would == d.o.dryRun {
		_ = json.NewEncoder(d.t.out).Encode(t)
		return
	}
	verb := "sent"
	if would {
		verb = "would send"
	}
	byClass := func(head string, counts map[string]int) {
		n, parts := 0, []string(nil)
		for _, class := range slices.Sorted(maps.Keys(counts)) {
			n += counts[class]
			parts = append(parts, fmt.Sprintf("%d %s", counts[class], class))
		}
		fmt.Fprintf(d.t.err, "%s %d: %s\n", head, n, strings.Join(parts, ", "))
	}
	if t.Total() == 0 {
		fmt.Fprintf(d.t.err, "%s nothing\n", verb)
	} else {
		byClass(verb, t.Sent)
	}
	for _, why := range slices.Sorted(maps.Keys(t.Kept)) {
		byClass("left, "+why+",", t.Kept[why])
	}
}
