package admin

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

	"odradek/cmd/internal/config"
	"odradek/processor"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/state"
	"odradek/schemas/registry"
)

// examination checks at the brokers and the registry what a start needs. `check -online`
// prints the report, and run does not start with a fault in it (startFault), so the two
// agree. It changes nothing.
type examination struct {
	r      *Report
	c      *config.Config
	client *kafka.Client
	reg    *registry.Client     // nil: none is configured, or it does not answer
	inputs []kafka.TopicInfo    // that exist
	down   bool                 // the registry does not answer, and a start is possible without it
	unfit  map[string][]Finding // faults of the newest schema of an input topic, until its records are seen
}

// Online reports on brokers, topics, permissions, schemas, live records and
// stored state. It goes as far as it can with a faulty configuration.
func Online(ctx context.Context, r *Report, c *config.Config) {
	e := &examination{r: r, c: c}
	var err error
	if e.reg, err = c.NewRegistry(); err != nil {
		r.Fault("schema registry", err.Error(), "")
	}
	kc, err := c.KafkaConfig()
	if err == nil {
		e.client, err = kafka.Open(ctx, kc)
	}
	if err != nil {
		e.registry(ctx)
		r.Fault("brokers", err.Error(), "")
		return
	}
	defer e.client.Close()
	r.OK("brokers", "%s: reached%s", strings.Join(c.Kafka.Brokers, ","), secured(c))
	e.start(ctx)
	if c.Group.Group != "" && !r.stops() {
		e.scores(ctx)
		e.state(ctx)
	}
}

// start makes the checks that run makes as well.
func (e *examination) start(ctx context.Context) {
	e.registry(ctx)
	if e.c.Group.Group == "" {
		return // reported already, and all names are derived from it
	}
	if !e.apis() {
		return // requests about the rest would fail for the same reason
	}
	e.brokers(ctx)
	e.group(ctx)
	e.topics(ctx)
	e.outputs(ctx)
	e.feedback(ctx)
	e.schemas(ctx)
	e.records(ctx)
}

// startLook bounds the time of the checks of one attempt to start.
const startLook = 30 * time.Second

// Examine makes run's checks; it returns nil where a worker can start. Findings about
// records and their schemas that are no faults are logged.
func Examine(ctx context.Context, c *config.Config, client *kafka.Client, reg *registry.Client, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, startLook)
	defer cancel()
	e := &examination{r: &Report{}, c: c, client: client, reg: reg}
	e.start(ctx)
	if err := e.r.startFault(); err != nil {
		return err
	}
	for _, f := range e.r.Findings {
		switch {
		case f.Level == LevelFault, f.Level == LevelWarn && f.suspect:
			log.Warn("the start goes on, but", "what", f.What, "found", f.Detail, "fix", f.Fix)
		case f.Level == LevelWarn:
			log.Debug("found at the start", "what", f.What, "found", f.Detail, "fix", f.Fix)
		}
	}
	return nil
}

// stops reports whether run does not start.
func (r *Report) stops() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == LevelFault && !f.Starts })
}

// startFault returns the faults that prevent a start; nil without one. Run retries where all
// of them may pass by themselves.
func (r *Report) startFault() error {
	var faults []Finding
	passes := true
	for _, f := range r.Findings {
		if f.Level == LevelFault && !f.Starts {
			faults = append(faults, f)
			passes = passes && f.err != nil && !final(f.err)
		}
	}
	switch {
	case len(faults) == 0:
		return nil
	case passes:
		return &startError{faults}
	}
	return Permanent(&startError{faults})
}

// apis reports the APIs that the brokers lack, and whether a worker can run without them.
func (e *examination) apis() bool {
	const what = "APIs of the brokers"
	runs := true
	if lacking := e.client.Cluster.Lacking(kafka.Worker); lacking != "" {
		runs = false
		e.r.Fault(what, "no worker can run without "+lacking, "use brokers that are compatible with Kafka 2.5 or newer")
	}
	exact := e.c.Cycle.Guarantee == "exactly_once"
	if lacking := e.client.Cluster.Lacking(kafka.Transactions); exact && lacking != "" {
		runs = false
		e.r.Fault(what, "there is no exactly once without "+lacking, "set "+config.Prefix+"GUARANTEE=at_least_once, with which some outputs "+
			"come twice after a crash, or use brokers, or a tier of the service, with transactions")
	}
	if lacking := e.client.Cluster.Lacking(kafka.StaticMember); lacking != "" && (e.c.Group.InstanceID != "" || e.c.Group.InstanceDir != "") {
		runs = false
		e.r.Fault(what, "there is no instance id without "+lacking, "set "+config.Prefix+"INSTANCE_ID=off: the membership is dynamic then")
	}
	if lacking := e.client.Cluster.Lacking(kafka.ConsumerProtocol); lacking != "" && e.c.Group.Protocol == "consumer" {
		runs = false
		e.r.Fault(what, "there is no group protocol consumer without "+lacking, "set "+config.Prefix+"GROUP_PROTOCOL=classic")
	}
	for _, w := range []struct {
		purpose     kafka.Purpose
		applies     bool
		detail, fix string
	}{
		{kafka.Configurations, true, "retention, record limits and timeouts are not compared with the settings",
			"compare retention.ms with " + config.Prefix + "REPLAY_LIMIT, and see that changelogs are compacted"},
		{kafka.CreatingTopics, e.c.Output.CreateTopics, "topics cannot be created",
			"create them with the tool of the brokers, changelogs with cleanup.policy=compact, and set " + config.Prefix + "CREATE_TOPICS=false"},
		{kafka.GrowingTopics, e.c.Cycle.StateLost == "reset", "changelogs of topics that grow are not extended", "extend them by hand"},
		{kafka.LeaderEpochs, true, "records that an unclean leader election has lost are not noticed", ""},
		{kafka.PermissionsKnown, true, "permissions are not known before they are needed", ""},
	} {
		if lacking := e.client.Cluster.Lacking(w.purpose); w.applies && lacking != "" {
			e.r.Findings = append(e.r.Findings, Finding{Level: LevelWarn, What: what, Detail: w.detail + ": they lack " + lacking, Fix: w.fix,
				suspect: w.fix != ""})
		}
	}
	return runs
}

// brokers compares timeouts with the brokers' limits. A broker that hides
// its configuration gives no finding: the worker finds out when it starts.
func (e *examination) brokers(ctx context.Context) {
	if conf, err := e.client.Admin.BrokerConfig(ctx); err == nil {
		e.limits(conf)
	}
}

func (e *examination) limits(conf map[string]string) {
	limit := func(name string) (time.Duration, bool) {
		ms, err := strconv.ParseInt(conf[name], 10, 64)
		return time.Duration(ms) * time.Millisecond, err == nil && ms > 0 && ms < int64(math.MaxInt64/time.Millisecond)
	}
	if most, ok := limit("transaction.max.timeout.ms"); ok && e.c.Cycle.Guarantee == "exactly_once" && e.c.Cycle.TransactionTimeout > most {
		e.r.Fault(config.Prefix+"TRANSACTION_TIMEOUT", fmt.Sprintf("%v is above what the brokers allow, %v", e.c.Cycle.TransactionTimeout, most),
			"lower it, or raise the brokers' transaction.max.timeout.ms")
	}
	session := e.c.Group.SessionTimeout
	if least, ok := limit("group.min.session.timeout.ms"); ok && session < least {
		e.r.Fault(config.Prefix+"SESSION_TIMEOUT", fmt.Sprintf("%v is below what the brokers allow, %v", session, least), "raise it")
	}
	if most, ok := limit("group.max.session.timeout.ms"); ok && session > most {
		e.r.Fault(config.Prefix+"SESSION_TIMEOUT", fmt.Sprintf("%v is above what the brokers allow, %v", session, most), "lower it")
	}
}

func secured(c *config.Config) string {
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

// may reports on one permission.
func (e *examination) may(what, why string, ops kafka.Operations, need ...kafka.Operation) {
	if missing := lacking(ops, need...); missing != "" {
		e.r.Fault(what, why+" is not permitted", "allow "+missing+" to "+principal(e.c))
	}
}

// lacking lists the operations that are not permitted; a broker that hides
// them gives none.
func lacking(ops kafka.Operations, need ...kafka.Operation) string {
	var missing []string
	for _, op := range need {
		if ops.Known && !ops.Has(op) {
			missing = append(missing, op.String())
		}
	}
	return strings.Join(missing, ", ")
}

func (e *examination) group(ctx context.Context) {
	for _, group := range e.c.Groups() {
		e.groupOf(ctx, group)
	}
}

// groupOf checks that the workers may join a group and commit in it.
func (e *examination) groupOf(ctx context.Context, group string) {
	name := "group " + group
	ops, err := e.client.Permissions.Operations(ctx, kafka.ResourceGroup, group)
	if err != nil && !kafka.Unsupported(err) { // apis has reported that
		e.r.unasked(name, err)
		return
	}
	before := len(e.r.Findings)
	e.may(name, "joining it", ops, kafka.OpRead)
	if e.c.Cycle.Guarantee == "exactly_once" {
		// The worker's id begins with the group's name; without an instance id
		// the rest is random, so the permission has to be one by prefix.
		id := group + "-"
		if e.c.Group.InstanceID != "" {
			id = processor.TransactionalID(group, e.c.Group.InstanceID)
		}
		ops, err := e.client.Permissions.Operations(ctx, kafka.ResourceTransactionalID, id)
		switch {
		case err != nil:
			e.r.unasked("transactional id "+id, err)
		case ops.Known && !ops.Has(kafka.OpDescribe):
			e.r.Fault("transactional id "+id, "transactions are not permitted",
				fmt.Sprintf("allow Describe and Write on transactional ids that begin with %q to %s, or set %sGUARANTEE=at_least_once",
					e.c.Group.Group+"-", principal(e.c), config.Prefix))
		}
	}
	if len(e.r.Findings) == before {
		e.r.OK(name, "may be joined")
	}
}

// topics checks the input topics.
func (e *examination) topics(ctx context.Context) {
	if len(e.c.Group.Topics) == 0 {
		return
	}
	inputs, faults, err := InputTopics(ctx, e.c, e.client.Admin)
	if err != nil {
		e.r.broken(config.Prefix+"TOPICS", err, "")
		return
	}
	e.inputs = inputs
	for _, p := range e.c.Group.Topics {
		if config.IsPattern(p) && !slices.ContainsFunc(inputs, func(t kafka.TopicInfo) bool { return config.MatchTopic([]string{p}, t.Name) }) {
			e.r.Warn("topics "+p, "none matches so far", "no fault if one will be created; the workers look every 30s")
		}
	}
	e.r.Findings = append(e.r.Findings, faults...)
	for _, info := range inputs {
		name, what := info.Name, "topic "+info.Name
		before := len(e.r.Findings)
		if missing := lacking(info.Operations, kafka.OpRead, kafka.OpDescribe); missing != "" { // its partitions are quarantined
			e.r.wrong(what, "reading it is not permitted", "allow "+missing+" to "+principal(e.c))
		}
		if info.Leaderless > 0 {
			e.r.wrong(what, fmt.Sprintf("%d of %d partitions have no leader", info.Leaderless, info.Partitions), "check the brokers")
		}
		retention := e.retention(ctx, name)
		if len(e.r.Findings) == before {
			by := ""
			if m := e.c.MappingOf(name); m != "" {
				by = ", read by mapping " + m
			}
			if pattern := config.BestMatch(e.c.Group.Topics, name); pattern != name {
				by += ", matches " + pattern
			}
			e.r.OK(what, "%d partitions%s%s", info.Partitions, retention, by)
		}
	}
}

// retention compares an input topic's retention with the replay of a restart.
func (e *examination) retention(ctx context.Context, topic string) string {
	conf, err := e.client.Admin.TopicConfig(ctx, topic)
	switch {
	case kafka.Unsupported(err): // apis has reported it
		return ""
	case err != nil:
		e.r.Warn("topic "+topic, "its configuration cannot be read, so its retention is not known: "+err.Error(),
			"allow DescribeConfigs to "+principal(e.c))
		return ""
	}
	if strings.Contains(conf["cleanup.policy"], "compact") {
		e.r.Warn("topic "+topic,
			"it is compacted: records that vanish before they are read are never scored, and state is rebuilt from what is left",
			"use cleanup.policy=delete for an input topic")
	}
	limit, kept := e.c.Cycle.ReplayLimit, ""
	if ms, err := strconv.ParseInt(conf["retention.ms"], 10, 64); err == nil && ms >= 0 && strings.Contains(conf["cleanup.policy"], "delete") {
		keeps := time.Duration(min(ms, int64(1<<62)/int64(time.Millisecond))) * time.Millisecond
		why := fmt.Sprintf("keeps records for %v, and a restart may have to read %v of input again", keeps, limit)
		switch {
		case keeps < 2*limit:
			e.r.wrong("topic "+topic, why, "raise retention.ms or lower "+config.Prefix+"REPLAY_LIMIT")
		case keeps < 20*limit || keeps < time.Hour:
			e.r.Warn("topic "+topic, why+": an outage that is longer loses input", "raise retention.ms")
		}
		kept = fmt.Sprintf(", keeps %v", keeps)
	}
	if n, err := strconv.ParseInt(conf["retention.bytes"], 10, 64); err == nil && n >= 0 &&
		strings.Contains(conf["cleanup.policy"], "delete") {
		e.r.Warn("topic "+topic, fmt.Sprintf(
			"keeps %d bytes a partition (retention.bytes), and the rate at which that is less than %v of input is not known", n, limit),
			"set retention.bytes=-1, or make sure that it holds much more than "+config.Prefix+"REPLAY_LIMIT")
	}
	return kept
}

// outputs checks the topics that the worker writes, and that missing ones can be created.
func (e *examination) outputs(ctx context.Context) {
	plans, err := topicPlans(ctx, e.c, e.client.Admin, e.inputs)
	if err != nil {
		e.r.broken("output topics", err, "")
		return
	}
	var missing []string
	var refused creations
	for _, p := range plans {
		info, what := p.info, "topic "+p.name
		before := len(e.r.Findings)
		switch {
		case !info.Authorized:
			e.r.Fault(what, "may not be described", "allow Describe and Write to "+principal(e.c))
			continue
		case !info.Exists && !e.c.Output.CreateTopics:
			// Someone may be about to create it.
			e.r.broken(what, errors.New("does not exist, and "+config.Prefix+"CREATE_TOPICS is false"),
				"create it (worker setup does), or correct "+config.Prefix+p.setting)
			continue
		case !info.Exists:
			if err := e.client.Admin.MayCreateTopic(ctx, p.name, p.partitions, e.c.Output.Replication, p.configs); err != nil {
				refused.add(p.name, err)
				continue
			}
			missing = append(missing, p.name)
			continue
		}
		need := []kafka.Operation{kafka.OpWrite, kafka.OpDescribe}
		if p.input != "" {
			need = append(need, kafka.OpRead)
		}
		e.may(what, "writing it", info.Operations, need...)
		if p.output == cycle.Rekeyed {
			if short := tooSmall(ctx, e.c, e.client.Admin, e.inputs); short != "" {
				e.r.Warn(what, short+": larger records become dead letters", "raise its max.message.bytes")
			}
		}
		if p.input != "" {
			e.changelog(ctx, p)
		}
		if len(e.r.Findings) == before {
			e.r.OK(what, "%d partitions", info.Partitions)
		}
	}
	refused.report(e.r)
	if len(missing) > 0 {
		e.r.OK("missing topics", "%s will be created", strings.Join(missing, ", "))
	}
}

// feedback warns of a feedback topic that the workers could not read. The topic need not exist.
func (e *examination) feedback(ctx context.Context) {
	topic := e.c.Detect.Feedback
	if topic == config.Off || !e.c.Detect.Anomalies {
		return
	}
	infos, err := e.client.Admin.Topics(ctx, topic)
	info, what := infos[topic], "topic "+topic
	switch {
	case err != nil:
		e.r.unasked(what, err)
	case !info.Authorized:
		e.r.Warn(what, "may not be described, so no mute is in force", "allow Describe and Read to "+principal(e.c)+", or set "+
			config.Prefix+"FEEDBACK_TOPIC=off")
	case info.Exists && lacking(info.Operations, kafka.OpRead) != "":
		e.r.Warn(what, "reading it is not permitted, so no mute is in force", "allow Read to "+principal(e.c))
	case info.Exists:
		e.r.OK(what, "%d partitions", info.Partitions)
	}
}

// creations groups topics that cannot be created by the remedy, which is mostly the same for
// all.
type creations struct {
	fixes []string
	names map[string][]string
	errs  map[string]error // of the first
}

func (c *creations) add(name string, err error) {
	fix := creationFix(err)
	if c.names == nil {
		c.names, c.errs = map[string][]string{}, map[string]error{}
	}
	if c.names[fix] == nil {
		c.fixes = append(c.fixes, fix)
		c.errs[fix] = err
	}
	c.names[fix] = append(c.names[fix], name)
}

func (c *creations) report(r *Report) {
	for _, fix := range c.fixes {
		what, verb := "topic ", "does not exist and cannot be created"
		if len(c.names[fix]) > 1 {
			what, verb = "topics ", "do not exist and cannot be created"
		}
		r.broken(what+strings.Join(c.names[fix], ", "), fmt.Errorf("%s: %w", verb, c.errs[fix]), fix)
	}
}

// creationFix returns the remedy for a topic that cannot be created.
func creationFix(err error) string {
	switch {
	case kafka.BadReplication(err):
		return "set " + config.Prefix + "REPLICATION to at most the number of brokers, or to -1 for their default"
	case kafka.Unauthorized(err):
		return "allow Create on it, or create it yourself (worker setup does, with more rights) and set " + config.Prefix + "CREATE_TOPICS=false"
	}
	return "create it yourself and set " + config.Prefix + "CREATE_TOPICS=false, or correct what the brokers refuse"
}

func (e *examination) changelog(ctx context.Context, p topicPlan) {
	what := "topic " + p.name
	if ks, err := e.c.ForTopic(p.input).KeystateConfig(); err == nil {
		cfg := processor.Config{Mappings: processor.MappingSet{Mapping: processor.Mapping{State: ks}}, StateLost: policyOf(e.c.Cycle.StateLost)}
		err := processor.MisfitOf(&cfg, p.input, p.partitions, p.name, p.info.Partitions)
		var refused *processor.RefusedError
		if errors.As(err, &refused) {
			e.r.Findings = append(e.r.Findings, Finding{Level: LevelFault, What: what, Detail: refused.Reason, Fix: refused.Decide, err: err,
				Starts: len(e.inputs) > 1}) // New refuses if no topic fits
		}
	}
	conf, err := e.client.Admin.TopicConfig(ctx, p.name)
	if err != nil {
		return // the warning on the input topic covers it
	}
	switch policy := conf["cleanup.policy"]; {
	case strings.Contains(policy, "delete"):
		e.r.wrong(what, "cleanup.policy="+policy+" deletes state by age", "set cleanup.policy=compact")
	case !strings.Contains(policy, "compact"):
		e.r.wrong(what, "cleanup.policy="+policy+": it grows without end", "set cleanup.policy=compact")
	}
}

// state reports whether workers can continue from the committed offsets and the stored state,
// with the code of a restore. run checks its own partitions when it restores them.
func (e *examination) state(ctx context.Context) {
	cfgs, err := ProcessorConfigs(e.c, e.client, e.reg)
	if err != nil {
		return // a fault of the configuration, reported there
	}
	seen, all, before := 0, 0, len(e.r.Findings)
	var same alike
	report := func(x processor.Examined) {
		seen++
		var refused *processor.RefusedError
		f := Finding{Level: LevelWarn, What: "state of " + x.TP.String()}
		add := func(detail string) {
			f.Detail = detail
			same.add(f)
		}
		for _, note := range x.Notes {
			add(note)
		}
		if x.From < x.Start {
			same.add(Finding{Level: LevelOK, What: "warm-up of " + x.TP.String(),
				Detail: fmt.Sprintf("a new group reads offsets %d to %d without publishing their results", x.From, x.Start-1)})
		}
		switch {
		case errors.As(x.Err, &refused):
			f.Level, f.Fix, f.err = LevelFault, refused.Decide, x.Err
			add(refused.Reason)
		case processor.Quarantines(x.Err):
			f.Level, f.Starts = LevelFault, true
			add("the partition would be quarantined: " + x.Err.Error())
		case errors.Is(x.Err, state.ErrAhead), kafka.OffsetLost(x.Err):
			add("it changes while it is examined: the group is running")
		case x.Err != nil:
			add("cannot be examined: " + x.Err.Error())
		}
	}
	for i := range cfgs {
		infos, ierr := e.client.Admin.Topics(ctx, cfgs[i].Topics...)
		if ierr != nil {
			e.r.Warn("stored state", "cannot be examined: "+ierr.Error(), "")
			return
		}
		var tps []kafka.TP
		for _, topic := range cfgs[i].Topics {
			for p := range int32(infos[topic].Partitions) {
				tps = append(tps, kafka.TP{Topic: topic, Partition: p})
			}
		}
		all += len(tps)
		if err = processor.Examine(ctx, cfgs[i], tps, report); err != nil {
			break
		}
	}
	e.r.Findings = append(e.r.Findings, same.list()...)
	switch {
	case err != nil:
		e.r.Warn("stored state", fmt.Sprintf("%d of %d partitions were checked: %v", seen, all, err), "give -timeout more time")
	case !slices.ContainsFunc(e.r.Findings[before:], func(f Finding) bool { return f.Level != LevelOK }):
		e.r.OK("stored state", "%d partitions can continue from theirs", seen)
	}
}

// alike merges findings of partitions whose texts differ in numbers alone.
type alike struct {
	Findings []Finding
	others   map[string]int // of the same text
}

func (a *alike) add(f Finding) {
	text := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, f.Detail)
	if _, there := a.others[text]; there {
		a.others[text]++
		return
	}
	if a.others == nil {
		a.others = map[string]int{}
	}
	a.others[text] = 0
	f.key = text
	a.Findings = append(a.Findings, f)
}

func (a *alike) list() []Finding {
	for i := range a.Findings {
		f := &a.Findings[i]
		if n := a.others[f.key]; n > 0 {
			f.What += fmt.Sprintf(" and %d more", n)
		}
	}
	return a.Findings
}
