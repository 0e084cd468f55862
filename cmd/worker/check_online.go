package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/schemas"
)

// onlineCheck asks a cluster what a configuration needs of it.
type onlineCheck struct {
	r      *report
	c      *Config
	client *kafka.Client
	reg    *schemas.Registry
	inputs []kafka.TopicInfo // that exist
}

// checkOnline reports on brokers, topics, permissions, schemas and live records.
// It goes as far as it can with a faulty configuration.
func checkOnline(ctx context.Context, r *report, c *Config) {
	o := &onlineCheck{r: r, c: c}
	o.registry(ctx)
	kc, err := c.KafkaConfig()
	if err != nil {
		r.fault("brokers", err.Error(), "")
		return
	}
	o.client, err = kafka.Open(ctx, kc)
	if err != nil {
		r.fault("brokers", err.Error(), "")
		return
	}
	defer o.client.Close()
	r.ok("brokers", "%s: reached%s", strings.Join(c.Kafka.Brokers, ","), secured(c))
	if c.Group.Group == "" {
		return // said already, and all names derive from it
	}
	o.brokers(ctx)
	o.group(ctx)
	o.topics(ctx)
	o.outputs(ctx)
	o.schemas(ctx)
	o.records(ctx)
}

// brokers compares timeouts with the brokers' limits. A broker that does not
// tell its configuration gives nothing: the worker finds out when it starts.
func (o *onlineCheck) brokers(ctx context.Context) {
	if conf, err := o.client.BrokerConfig(ctx); err == nil {
		o.limits(conf)
	}
}

func (o *onlineCheck) limits(conf map[string]string) {
	limit := func(name string) (time.Duration, bool) {
		ms, err := strconv.ParseInt(conf[name], 10, 64)
		return time.Duration(ms) * time.Millisecond, err == nil && ms > 0 && ms < int64(math.MaxInt64/time.Millisecond)
	}
	if most, ok := limit("transaction.max.timeout.ms"); ok && o.c.Cycle.Guarantee == "exactly_once" && o.c.Cycle.TransactionTimeout > most {
		o.r.fault(prefix+"TRANSACTION_TIMEOUT", fmt.Sprintf("%v is above what the brokers allow, %v", o.c.Cycle.TransactionTimeout, most), "lower it, or raise the brokers' transaction.max.timeout.ms")
	}
	session := o.c.Group.SessionTimeout
	if least, ok := limit("group.min.session.timeout.ms"); ok && session < least {
		o.r.fault(prefix+"SESSION_TIMEOUT", fmt.Sprintf("%v is below what the brokers allow, %v", session, least), "raise it")
	}
	if most, ok := limit("group.max.session.timeout.ms"); ok && session > most {
		o.r.fault(prefix+"SESSION_TIMEOUT", fmt.Sprintf("%v is above what the brokers allow, %v", session, most), "lower it")
	}
}

func secured(c *Config) string {
	var with []string
	if c.Kafka.TLS {
		with = append(with, "TLS")
	}
	if c.Kafka.SASLMechanism != "" {
		with = append(with, "SASL "+c.Kafka.SASLMechanism+" as "+c.Kafka.Username)
	}
	if len(with) == 0 {
		return ""
	}
	return " with " + strings.Join(with, ", ")
}

// may reports on one permission; a broker that does not tell gives nothing.
func (o *onlineCheck) may(what, why string, ops kafka.Operations, need ...kafka.Operation) {
	if !ops.Known {
		return
	}
	var missing []string
	for _, op := range need {
		if !ops.Has(op) {
			missing = append(missing, op.String())
		}
	}
	if len(missing) > 0 {
		o.r.fault(what, why+" is not permitted", "allow "+strings.Join(missing, ", ")+" to "+o.c.principal())
	}
}

func (o *onlineCheck) group(ctx context.Context) {
	name := "group " + o.c.Group.Group
	ops, err := o.client.Operations(ctx, kafka.ResourceGroup, o.c.Group.Group)
	if err != nil {
		o.r.fault(name, err.Error(), "")
		return
	}
	before := len(o.r.findings)
	o.may(name, "joining it", ops, kafka.OpRead)
	if o.c.Cycle.Guarantee == "exactly_once" {
		// The worker's id begins with the group's name; without an instance id
		// the rest is random, so the permission has to be one by prefix.
		id := o.c.Group.Group + "-"
		if o.c.Group.InstanceID != "" {
			id = processor.TransactionalID(o.c.Group.Group, o.c.Group.InstanceID)
		}
		ops, err := o.client.Operations(ctx, kafka.ResourceTransactionalID, id)
		switch {
		case err != nil:
			o.r.fault("transactional id "+id, err.Error(), "")
		case ops.Known && !ops.Has(kafka.OpDescribe):
			o.r.fault("transactional id "+id, "transactions are not permitted",
				fmt.Sprintf("allow Describe and Write on transactional ids that begin with %q to %s, or set %sGUARANTEE=at_least_once", o.c.Group.Group+"-", o.c.principal(), prefix))
		}
	}
	if len(o.r.findings) == before {
		o.r.ok(name, "may be joined")
	}
}

// topics checks the input topics.
func (o *onlineCheck) topics(ctx context.Context) {
	if len(o.c.Group.Topics) == 0 {
		return
	}
	inputs, faults, err := o.c.inputTopics(ctx, o.client)
	if err != nil {
		o.r.fault(prefix+"TOPICS", err.Error(), "")
		return
	}
	o.inputs = inputs
	o.r.findings = append(o.r.findings, faults...)
	for _, info := range inputs {
		name, what := info.Name, "topic "+info.Name
		before := len(o.r.findings)
		o.may(what, "reading it", info.Operations, kafka.OpRead, kafka.OpDescribe)
		if info.Leaderless > 0 {
			o.r.fault(what, fmt.Sprintf("%d of %d partitions have no leader", info.Leaderless, info.Partitions), "see to the brokers")
		}
		retention := o.retention(ctx, name)
		if len(o.r.findings) == before {
			o.r.ok(what, "%d partitions%s", info.Partitions, retention)
		}
	}
}

// retention compares what an input topic keeps with what a restart may have to
// read again.
func (o *onlineCheck) retention(ctx context.Context, topic string) string {
	conf, err := o.client.TopicConfig(ctx, topic)
	if err != nil {
		o.r.warn("topic "+topic, "its configuration cannot be read, so its retention is not known: "+err.Error(), "allow DescribeConfigs to "+o.c.principal())
		return ""
	}
	if strings.Contains(conf["cleanup.policy"], "compact") {
		o.r.warn("topic "+topic, "it is compacted: records that vanish before they are read are never scored, and state is rebuilt from what is left",
			"use cleanup.policy=delete for an input topic")
	}
	limit, kept := o.c.Cycle.ReplayLimit, ""
	if ms, err := strconv.ParseInt(conf["retention.ms"], 10, 64); err == nil && ms >= 0 && strings.Contains(conf["cleanup.policy"], "delete") {
		keeps := time.Duration(min(ms, int64(1<<62)/int64(time.Millisecond))) * time.Millisecond
		why := fmt.Sprintf("keeps records for %v, and a restart may have to read %v of input again", keeps, limit)
		switch {
		case keeps < 2*limit:
			o.r.fault("topic "+topic, why, "raise retention.ms or lower "+prefix+"REPLAY_LIMIT")
		case keeps < 20*limit || keeps < time.Hour:
			o.r.warn("topic "+topic, why+": an outage that is longer loses input", "raise retention.ms")
		}
		kept = fmt.Sprintf(", keeps %v", keeps)
	}
	if n, err := strconv.ParseInt(conf["retention.bytes"], 10, 64); err == nil && n >= 0 && strings.Contains(conf["cleanup.policy"], "delete") {
		o.r.warn("topic "+topic, fmt.Sprintf("keeps %d bytes a partition (retention.bytes): at what rate that is less than %v of input is not known here", n, limit),
			"set retention.bytes=-1, or make sure that it holds much more than "+prefix+"REPLAY_LIMIT")
	}
	return kept
}

// outputs checks the topics that the worker writes.
func (o *onlineCheck) outputs(ctx context.Context) {
	if err := o.c.keepChangelogs(ctx, o.client, slog.New(slog.DiscardHandler)); err != nil {
		o.r.fault("changelogs", err.Error(), "")
	}
	type output struct {
		name, setting string
		partitions    int    // needed; 0 for any
		of            string // input topic of a changelog
	}
	out := &o.c.Output
	list := []output{{out.DLQTopic, "DLQ_TOPIC", 0, ""}, {out.LateTopic, "LATE_TOPIC", 0, ""}}
	if out.Scores != "none" {
		list = append(list, output{out.ScoresTopic, "SCORES_TOPIC", 0, ""})
	}
	if o.c.anomalies() {
		list = append(list, output{out.AnomaliesTopic, "ANOMALIES_TOPIC", 0, ""})
	}
	if o.c.Cycle.Rekey {
		list = append(list, output{out.RekeyTopic, "REKEY_TOPIC", 0, ""}, output{o.c.ChangelogTopic(out.RekeyTopic), "CHANGELOG_PREFIX", 0, out.RekeyTopic})
	} else {
		for _, in := range o.inputs {
			list = append(list, output{o.c.ChangelogTopic(in.Name), "CHANGELOG_PREFIX", in.Partitions, in.Name})
		}
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].name
	}
	infos, err := o.client.Topics(ctx, names...)
	if err != nil {
		o.r.fault("output topics", err.Error(), "")
		return
	}
	cluster, clusterErr := o.client.Operations(ctx, kafka.ResourceCluster, "")
	var missing []string
	for _, t := range list {
		info, what := infos[t.name], "topic "+t.name
		before := len(o.r.findings)
		switch {
		case !info.Authorized:
			o.r.fault(what, "may not be described", "allow Describe and Write to "+o.c.principal())
			continue
		case !info.Exists && !out.CreateTopics:
			o.r.fault(what, "does not exist, and "+prefix+"CREATE_TOPICS is false", "create it, or correct "+prefix+t.setting)
			continue
		case !info.Exists:
			missing = append(missing, t.name)
			continue
		}
		need := []kafka.Operation{kafka.OpWrite, kafka.OpDescribe}
		if t.of != "" {
			need = append(need, kafka.OpRead)
		}
		o.may(what, "writing it", info.Operations, need...)
		if t.setting == "REKEY_TOPIC" {
			if short := tooSmall(ctx, o.c, o.client); short != "" {
				o.r.warn(what, short+": larger records become dead letters", "raise its max.message.bytes")
			}
		}
		if t.of != "" {
			o.changelog(ctx, t.name, t.of, info.Partitions, t.partitions)
		}
		if len(o.r.findings) == before {
			o.r.ok(what, "%d partitions", info.Partitions)
		}
	}
	if len(missing) > 0 {
		if clusterErr == nil && cluster.Known && !cluster.Has(kafka.OpCreate) {
			// A permission on the names may still be there, which cannot be asked for.
			o.r.warn("missing topics", strings.Join(missing, ", ")+" would be created, which the cluster does not permit to all names",
				"allow Create on these names, or create them")
		} else {
			o.r.ok("missing topics", "%s will be created", strings.Join(missing, ", "))
		}
	}
}

func (o *onlineCheck) changelog(ctx context.Context, name, of string, have, need int) {
	what := "topic " + name
	if need > 0 && have != need {
		o.r.fault(what, fmt.Sprintf("it has %d partitions and %s has %d: series may lie in other partitions than their state", have, of, need),
			"worker state reset -topic "+of)
	}
	o.emptied(ctx, name, of, have)
	conf, err := o.client.TopicConfig(ctx, name)
	if err != nil {
		return // the warning on the input topic has said it
	}
	switch policy := conf["cleanup.policy"]; {
	case strings.Contains(policy, "delete"):
		o.r.fault(what, "cleanup.policy="+policy+" deletes state by age", "set cleanup.policy=compact")
	case !strings.Contains(policy, "compact"):
		o.r.fault(what, "cleanup.policy="+policy+": it grows without end", "set cleanup.policy=compact")
	}
}

// emptied reports a changelog partition without a record though the committed
// offset says that there is state. What cannot be asked shows at the start.
func (o *onlineCheck) emptied(ctx context.Context, name, of string, partitions int) {
	var inputs, logs []kafka.TP
	for p := range int32(partitions) {
		inputs, logs = append(inputs, kafka.TP{Topic: of, Partition: p}), append(logs, kafka.TP{Topic: name, Partition: p})
	}
	committed, err := o.client.Committed(ctx, o.c.Group.Group, inputs)
	if err != nil {
		return
	}
	first, err := o.client.ListOffsets(ctx, logs, kafka.Earliest)
	if err != nil {
		return
	}
	last, err := o.client.ListOffsets(ctx, logs, kafka.Latest)
	if err != nil {
		return
	}
	for i, log := range logs {
		if processor.Incarnation(committed[inputs[i]].Metadata) != "" && first[log] == last[log] {
			o.r.fault("topic "+name, fmt.Sprintf("partition %d is empty, and offset %d of %s is committed with state: it was deleted and made again, or its records were deleted",
				log.Partition, committed[inputs[i]].Offset, inputs[i]), "worker state reset -topic "+of+", or "+prefix+"STATE_LOST=reset")
			return
		}
	}
}

// registry checks that the schema registry answers.
func (o *onlineCheck) registry(ctx context.Context) {
	reg, err := o.c.NewRegistry()
	if err != nil {
		o.r.fault("schema registry", err.Error(), "")
		return
	}
	if reg == nil {
		return
	}
	o.reg = reg
	if err := reg.CacheFault(); err != nil {
		o.r.warn("schema cache", err.Error(), "make the folder writable, set "+prefix+"SCHEMA_REGISTRY_CACHE_DIR to another, or to off")
	}
	if err := reg.Ping(ctx); err != nil {
		o.r.fault("schema registry", err.Error(), "")
		return
	}
	o.r.ok("schema registry", "%s: reached", redactURLs(strings.Join(o.c.Registry.URLs, ",")))
}

// schemas checks the mapping against the newest schema of each input topic, and
// that those of the outputs can be registered.
func (o *onlineCheck) schemas(ctx context.Context) {
	if o.reg == nil {
		return
	}
	for _, in := range o.inputs {
		subject := schemas.Subject(in.Name)
		s, err := o.reg.Latest(ctx, subject)
		switch {
		case errors.Is(err, schemas.ErrUnknownSchema):
			o.r.warn("subject "+subject, "the registry has no such subject", "fine if the topic's schemas go by record name or ids; the live records tell")
		case err != nil:
			o.r.fault("subject "+subject, err.Error(), "")
		default:
			o.fits(fmt.Sprintf("subject %s version %d", subject, s.Version), s.JSON)
		}
	}
	for _, out := range outputSchemas(o.c) {
		subject := schemas.Subject(out.topic)
		switch ok, reasons, err := o.reg.Compatible(ctx, subject, out.schema); {
		case err != nil:
			o.r.warn("subject "+subject, "compatibility of the schema of "+out.what+" cannot be asked: "+err.Error(), "")
		case !ok:
			o.r.fault("subject "+subject, "it does not take the schema of "+out.what+": "+strings.Join(reasons, "; "), "use another topic ("+prefix+out.setting+") or change the subject's compatibility")
		}
	}
}

// fits reports which paths of the mapping a schema lacks.
func (o *onlineCheck) fits(what, schemaJSON string) {
	faults := o.c.SchemaMapping().Check(schemaJSON)
	for _, err := range faults {
		o.r.fault(what, strings.TrimPrefix(err.Error(), "schemas: "), "")
	}
	if len(faults) == 0 {
		o.r.ok(what, "has all mapped fields")
	}
}

// How many live records are looked at.
const (
	samplePartitions = 16
	sampleRecords    = 25 // of a partition, the newest
)

// liveSample is what a few records of a topic show.
type liveSample struct {
	records   int
	failed    map[string]int    // by class
	example   map[string]string // of a class
	schemas   map[int32]bool
	future    int
	otherKey  int              // series key differs from the record key
	nullKey   int              // no record key
	places    map[string]int32 // partition in which a series was seen
	scattered string           // a series that was seen in two
}

// records decodes a few of the newest records of each input topic.
func (o *onlineCheck) records(ctx context.Context) {
	opts, err := o.c.DecoderOptions()
	if err != nil {
		return // a fault of the configuration, said there
	}
	dec, err := schemas.NewDecoder(o.c.SchemaMapping(), o.reg, opts)
	if err != nil {
		return
	}
	f := o.client.NewFetcher(kafka.FetcherConfig{ReadCommitted: true, MaxWait: 200 * time.Millisecond})
	defer f.Close()
	for _, in := range o.inputs {
		s, err := o.sample(ctx, f, dec, in)
		if err != nil {
			o.r.warn("records of "+in.Name, "cannot be read: "+err.Error(), "")
			continue
		}
		o.judge(in, s)
	}
}

func (o *onlineCheck) sample(ctx context.Context, f *kafka.Fetcher, dec *schemas.Decoder, in kafka.TopicInfo) (*liveSample, error) {
	s := &liveSample{failed: map[string]int{}, example: map[string]string{}, schemas: map[int32]bool{}, places: map[string]int32{}}
	var tps []kafka.TP
	for p := range min(in.Partitions, samplePartitions) {
		tps = append(tps, kafka.TP{Topic: in.Name, Partition: int32(p)})
	}
	first, err := o.client.ListOffsets(ctx, tps, kafka.Earliest)
	if err != nil {
		return nil, err
	}
	ends, err := o.client.ListStable(ctx, tps)
	if err != nil {
		return nil, err
	}
	var reading schemas.Reading
	for _, tp := range tps {
		// Markers and aborted records may fill the last offsets, so a partition
		// can show fewer records than asked for, or none.
		from := max(first[tp], ends[tp]-sampleRecords)
		err := readRange(ctx, f, tp, from, ends[tp], func(rec *kafka.Record) (bool, error) {
			s.records++
			if err := dec.Decode(ctx, rec.Key, rec.Value, rec.Timestamp, rec.Header, &reading); err != nil {
				class := "malformed"
				var de *schemas.DecodeError
				if errors.As(err, &de) {
					class = de.Class
				}
				s.failed[class]++
				s.example[class] = fmt.Sprintf("%s at offset %d: %s", tp, rec.Offset, strings.TrimPrefix(err.Error(), "schemas: "))
				return true, nil
			}
			s.schemas[reading.Schema] = true
			if m := o.c.Keys.MaxFuture; m > 0 && reading.Time > rec.Timestamp*1000+m.Microseconds() {
				s.future++
			}
			key := string(reading.Key)
			switch {
			case rec.Key == nil:
				s.nullKey++
			case key != string(rec.Key):
				s.otherKey++
			}
			if place, seen := s.places[key]; !seen {
				s.places[key] = tp.Partition
			} else if place != tp.Partition {
				s.scattered = key
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// judge reports on a topic's sample.
func (o *onlineCheck) judge(in kafka.TopicInfo, s *liveSample) {
	what := "records of " + in.Name
	if s.records == 0 {
		o.r.warn(what, "there are none to look at", "")
		return
	}
	before := len(o.r.findings)
	classes := make([]string, 0, len(s.failed))
	for c := range s.failed {
		classes = append(classes, c)
	}
	slices.Sort(classes)
	bad := 0
	for _, c := range classes {
		bad += s.failed[c]
		detail := fmt.Sprintf("%d of %d would be dead letters (%s), such as %s", s.failed[c], s.records, c, s.example[c])
		if s.failed[c] == s.records {
			o.r.fault(what, detail, "see the mapping settings, "+prefix+"KEY_FIELD, _TIME_FIELD, _VALUE_FIELDS")
		} else {
			o.r.warn(what, detail, "")
		}
	}
	if s.future > 0 {
		o.r.warn(what, fmt.Sprintf("%d of %d have an event time more than %v ahead: they would be dead letters", s.future, s.records, o.c.Keys.MaxFuture),
			"see "+prefix+"TIME_FIELD, _TIME_UNIT, _MAX_FUTURE")
	}
	if in.Partitions > 1 && !o.c.Cycle.Rekey {
		switch {
		case s.scattered != "":
			o.r.fault(what, "a series lies in several partitions, so each has a part of it only", "set "+prefix+"REKEY=true and "+prefix+"LATENESS, or key the topic by series")
		case s.nullKey > 0:
			o.r.fault(what, fmt.Sprintf("%d of %d have no record key: a series' records may go to any partition", s.nullKey, s.records), "set "+prefix+"REKEY=true and "+prefix+"LATENESS, or key the topic by series")
		case s.otherKey > 0:
			o.r.warn(what, fmt.Sprintf("%d of %d have a record key that is not the series key; no series was seen in two partitions", s.otherKey, s.records),
				"if the record key does not decide the series, set "+prefix+"REKEY=true and "+prefix+"LATENESS")
		}
	}
	if len(o.r.findings) == before {
		ids := make([]string, 0, len(s.schemas))
		for id := range s.schemas {
			if id >= 0 {
				ids = append(ids, strconv.Itoa(int(id)))
			}
		}
		slices.Sort(ids)
		of := ""
		if len(ids) > 0 {
			of = ", schema ids " + strings.Join(ids, ",")
		}
		o.r.ok(what, "%d looked at, all can be read%s", s.records, of)
	}
}
