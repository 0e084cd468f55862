package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/cmd/internal/page"
	"odradek/cmd/internal/why"
	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
	"odradek/schemas/output"
)

const muteAbout = `Mutes the anomalies of some detectors and series for a time. The workers apply a rule within a second (ten if the
topic is new), without a restart; they still publish the scores. A rule is a record of the topic ODRADEK_FEEDBACK_TOPIC.

  add     adds a rule for the series of -keys, or for -all; or with -id replaces one. It prints which series are muted now
  list    lists the rules, and with -all also the feedback on single anomalies
  remove  removes a rule, or the feedback on an anomaly`

const muteExamples = `  worker mute add -keys 'pump-17*' -for 2h -reason 'bearing is being changed'
  worker mute add -all -detector spikes -direction below -forever -reason 'sensor drops to 0 now and then'
  worker mute add -maintenance -keys 'line-3/*' -from 2026-02-07T06:00:00Z -to 2026-02-07T14:00:00Z
  worker mute list
  worker mute remove 5f0c2a91`

// muteOptions are the flags of `mute`.
type muteOptions struct {
	action      string
	f           output.Feedback
	from, to    string
	duration    time.Duration
	forever     bool
	maintenance bool
	direction   string
	partition   int
	all, asJSON bool
	yes         bool
	timeout     time.Duration
}

// check completes the record and returns what is wrong with the options.
func (o *muteOptions) check(c *config.Config, now time.Time) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	at := func(name, text string) *int64 {
		if text == "" {
			return nil
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			wrong("-%s %q is not a time like 2026-01-31T08:00:00Z", name, text)
			return nil
		}
		us := t.UnixMicro()
		return &us
	}
	f := &o.f
	f.From, f.To = at("from", o.from), at("to", o.to)
	switch {
	case f.Keys == "" && !o.all:
		wrong("give the series with -keys, or -all")
	case f.Keys != "" && o.all:
		wrong("-keys %s and -all exclude each other", f.Keys)
	}
	ends := 0
	for _, given := range []bool{o.to != "", o.duration > 0, o.forever} {
		if given {
			ends++
		}
	}
	switch {
	case ends != 1:
		wrong("give the end with one of -to, -for and -forever")
	case o.duration > 0:
		end := now.UnixMicro()
		if f.From != nil {
			end = *f.From
		}
		end += o.duration.Microseconds()
		f.To = &end
	}
	if o.maintenance {
		f.Kind = output.FeedbackMaintenance
		if f.From == nil || f.To == nil {
			wrong("a maintenance has a begin and an end: -from and -to, or -for")
		}
	}
	i := slices.Index(output.FeedbackDirections, o.direction)
	if i < 0 {
		wrong("-direction %q is none of %s", o.direction, strings.Join(output.FeedbackDirections, ", "))
	}
	f.Direction = uint8(max(i, 0))
	if f.Detector != "" && f.Detector != series.SilenceName &&
		!slices.ContainsFunc(c.Detectors, func(d config.DetectorSettings) bool { return d.Name == f.Detector }) {
		wrong("-detector %q is none of %s, nor %s", f.Detector, strings.Join(c.Detect.Names, ", "), series.SilenceName)
	}
	switch p := int32(o.partition); {
	case o.partition < 0:
	case f.Topic == "" || int(p) != o.partition:
		wrong("-partition %d needs its -topic", o.partition)
	default:
		f.Partition = &p
	}
	if m, _ := feedback.MuteOf(f); len(faults) == 0 && m.Check() != "" {
		wrong("%s", m.Check())
	}
	return faults
}

func (t terminal) mute(ctx context.Context, args []string) int {
	var o muteOptions
	fs := t.flags("mute add|list|remove", muteAbout, muteExamples)
	fs.StringVar(&o.f.ID, "id", "", "add: name of the rule, default eight random digits; remove: which")
	fs.StringVar(&o.f.Detector, "detector", "", "add: only this detector, or silence (ODRADEK_SILENCE); default: all")
	fs.StringVar(&o.f.Keys, "keys", "", "add: only series that match: * matches any text, ? one byte; -all mutes all")
	fs.StringVar(&o.f.Topic, "topic", "", "add: only series of this input topic; default: all")
	fs.IntVar(&o.partition, "partition", -1, "add: only series of this partition of -topic; default: all")
	fs.StringVar(&o.from, "from", "", "add: event time at which it begins, like 2026-01-31T08:00:00Z; default: always")
	fs.StringVar(&o.to, "to", "", "add: event time at which it ends")
	fs.DurationVar(&o.duration, "for", 0, "add: it ends this long after -from, or after now")
	fs.BoolVar(&o.forever, "forever", false, "add: until it is removed")
	fs.BoolVar(&o.maintenance, "maintenance", false, "add: because of work on the machines; needs a begin and an end")
	fs.StringVar(&o.direction, "direction", "both", "add: only samples on this side of the expected value: both, above or below")
	fs.StringVar(&o.f.Reason, "reason", "", "add: the reason, as free text")
	fs.StringVar(&o.f.Author, "author", userName(), "add: who says so")
	fs.BoolVar(&o.all, "all", false, "add: all series, with -topic of this topic; list: also the feedback on single anomalies")
	fs.BoolVar(&o.yes, "yes", false, "add, remove: "+yesHelp)
	fs.BoolVar(&o.asJSON, "json", false, "list: one JSON object a line")
	fs.DurationVar(&o.timeout, "timeout", time.Minute, "time limit")
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.action, args = args[0], args[1:]
	}
	named := "" // the id without -id, as worker why takes it
	if o.action == "remove" && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		named, args = args[0], args[1:]
	}
	if code, done := parse(fs, args); done {
		return code
	}
	c, code, ok := t.configFor()
	if !ok {
		return code
	}
	var faults []string
	if named != "" && o.f.ID != "" {
		faults = []string{fmt.Sprintf("remove: %s and -id %s: name one rule", named, o.f.ID)}
	} else if named != "" {
		o.f.ID = named
	}
	switch o.action {
	case "add":
		faults = o.check(c, time.Now())
	case "list":
	case "remove":
		if o.f.ID == "" {
			faults = []string{"remove: name the rule by its id; worker mute list shows them"}
		}
	default:
		faults = []string{fmt.Sprintf("say add, list or remove, not %q; worker mute -h tells more", o.action)}
	}
	return t.withFeedback(
		ctx,
		c,
		"mute",
		faults,
		o.timeout,
		o.yes,
		func(ctx context.Context, l *feedbackTool) (string, func(context.Context) error, error) {
			switch o.action {
			case "list":
				return "", nil, l.list(ctx, o.all, o.asJSON)
			case "remove":
				return l.removal(ctx, o.f.ID)
			}
			if err := l.showMute(ctx, c, &o.f); err != nil {
				return "", nil, err
			}
			return "mute them?", func(ctx context.Context) error { return l.write(ctx, &o.f) }, nil
		},
	)
}

const feedbackAbout = `Labels anomalies, in the topic ODRADEK_FEEDBACK_TOPIC: was one a fault? From ODRADEK_LEARN_FROM false alarms
of a kind on, the workers mark later anomalies that are like them: these have severity 0, and name the labels. A label says
what its anomaly was like, which it takes from the anomalies topic. worker mute remove -id anomaly/<id> takes a label
back, and with it what it has taught.

  confirm      the anomaly was a fault: nothing that is learned covers it
  false-alarm  it was not
  rules        lists what the labels teach`

func (t terminal) feedback(ctx context.Context, args []string) int {
	fs := t.flags("feedback confirm|false-alarm|rules", feedbackAbout,
		"  worker feedback confirm -anomaly 6e1f0c2a -reason 'seal was leaking'\n  worker feedback false-alarm -anomaly 6e1f0c2a -yes\n"+
			"  worker feedback rules")
	f := output.Feedback{}
	fs.StringVar(&f.Anomaly, "anomaly", "", "id of the anomaly, or its first 8 digits or more")
	yes := fs.Bool("yes", false, yesHelp)
	fs.StringVar(&f.Reason, "reason", "", "the reason, as free text")
	fs.StringVar(&f.Author, "author", userName(), "who gives the feedback")
	timeout := fs.Duration("timeout", time.Minute, "time limit")
	action := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		action, args = args[0], args[1:]
	}
	if code, done := parse(fs, args); done {
		return code
	}
	var faults []string
	switch action {
	case "confirm":
		f.Kind = output.FeedbackConfirm
	case "false-alarm":
		f.Kind = output.FeedbackFalseAlarm
	case "rules":
	default:
		faults = append(faults, fmt.Sprintf("say confirm, false-alarm or rules, not %q; worker feedback -h tells more", action))
	}
	f.Anomaly = strings.ToLower(f.Anomaly)
	if fault := why.CheckID(f.Anomaly); action != "rules" && fault != "" {
		faults = append(faults, "-anomaly "+fault)
	}
	c, code, ok := t.configFor()
	if !ok {
		return code
	}
	return t.withFeedback(
		ctx,
		c,
		"feedback",
		faults,
		*timeout,
		*yes,
		func(ctx context.Context, l *feedbackTool) (string, func(context.Context) error, error) {
			if action == "rules" {
				return "", nil, l.rules(ctx, c.Detect.LearnFrom)
			}
			if err := l.describe(ctx, c.Output.Topics[cycle.Anomalies], &f); err != nil {
				return "", nil, err
			}
			return "write it?", func(ctx context.Context) error { return l.write(ctx, &f) }, nil
		},
	)
}

// wholeID is the number of digits of an anomaly's id.
const wholeID = 32

// describe completes a label with the id of its anomaly and what that was like, and prints it. It warns where that cannot be
// known.
func (ft *feedbackTool) describe(ctx context.Context, topic string, f *output.Feedback) error {
	first, last, err := why.Find(ctx, ft.topic.Client, topic, f.Anomaly)
	var unknown *why.UnknownError
	switch {
	case errors.As(err, &unknown) && len(f.Anomaly) == wholeID:
		fmt.Fprintf(ft.t.err, "warning: the workers learn nothing from this label: %v\n", err)
	case err != nil:
		return err
	default:
		f.Anomaly = hex.EncodeToString(first.ID[:])
		fmt.Fprintf(ft.t.err, "%s: anomaly %s of %s, series %s of %s/%d, %s to %s, severity %d\n", output.FeedbackKinds[f.Kind], f.Anomaly,
			plain(last.Detector), plain(string(last.Key)), plain(last.Topic), last.Partition, time.UnixMicro(last.Start).UTC().Format(time.RFC3339),
			time.UnixMicro(last.End).UTC().Format(time.RFC3339), last.Severity)
		if f.Alarm = feedback.AlarmOf(first, last); f.Alarm == nil {
			fmt.Fprintf(ft.t.err, "warning: the workers learn nothing from this label: "+
				"retention has taken the record of %s that opened it, or it has no score\n", f.Anomaly)
		}
	}
	f.ID = "anomaly/" + f.Anomaly // later feedback replaces it
	return nil
}

// muteReading is how long the names of the series may take to be read.
const muteReading = 15 * time.Second

// namedMost is the number of series whose names are printed.
const namedMost = 20

// showMute prints what a rule mutes now: which of the series that the group has state of.
func (ft *feedbackTool) showMute(ctx context.Context, c *config.Config, f *output.Feedback) error {
	partition := -1
	if f.Partition != nil {
		partition = int(*f.Partition)
	}
	ctx, cancel := context.WithTimeout(ctx, muteReading)
	defer cancel()
	all, names := 0, []string(nil)
	s, err := admin.OpenGroup(ctx, c, &admin.Options{Topic: f.Topic, Partition: partition}, io.Discard, ft.t.err)
	if err == nil {
		defer s.Close()
		err = s.Series(ctx, func(_ kafka.TP, series string) {
			all++
			if f.Keys == "" || rules.MatchKey(f.Keys, []byte(series)) {
				names = append(names, plain(series))
			}
		})
	}
	slices.Sort(names)
	text := strings.Join(names[:min(len(names), namedMost)], ", ")
	if more := len(names) - namedMost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	muted := "all detectors"
	if f.Detector != "" {
		muted = "detector " + f.Detector
	}
	known := fmt.Sprintf("the %d series that the group has state of", all)
	if err != nil {
		known = fmt.Sprintf("%d series; the others could not be read: %v", all, err)
	}
	switch {
	case len(names) == 0:
		fmt.Fprintf(ft.t.err, "warning: %q matches none of %s; a later one may match\n", cmp.Or(f.Keys, "-all"), known)
	default:
		fmt.Fprintf(ft.t.err, "mutes %s on %d of %s: %s\n", muted, len(names), known, text)
	}
	return nil
}

// rules prints what the labels teach.
func (ft *feedbackTool) rules(ctx context.Context, least int) error {
	if least == 0 {
		return errors.New("feedback: ODRADEK_LEARN_FROM is 0: the workers learn nothing from labels")
	}
	all, err := feedback.ReadAll(ctx, ft.topic.Client, ft.topic.Name, ft.bad)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(ft.t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "detector\ttopic\tseries\tfield\tside\thighest score\trange\theld\tsamples\tfalse alarms\tsuch as")
	for _, topicRules := range feedback.Learn(all, least) {
		for i := range topicRules.Rules {
			printRule(w, cmp.Or(topicRules.Topic, "any"), &topicRules.Rules[i])
		}
	}
	return w.Flush()
}

// printRule prints a line of `feedback rules`.
func printRule(w io.Writer, topic string, r *rules.LearnedRule) {
	name := plain(r.Series)
	switch {
	case r.All && r.Series == "":
		name = "all"
	case r.All && math.IsInf(r.To, -1):
		name = "not " + name
	case r.All:
		name = "all, in " + name
	}
	width := "any"
	if r.Wide > 0 {
		width = fmt.Sprintf("%.4g to %.4g", r.Narrow, r.Wide)
	}
	held := "any"
	if r.Long > 0 {
		held = fmt.Sprintf("%d to %d", r.Short, r.Long)
	}
	samples := "any"
	if r.Samples > 0 {
		samples = fmt.Sprint("up to ", r.Samples)
	}
	var ids []string
	for _, id := range r.Labels {
		ids = append(ids, hex.EncodeToString(id[:]))
	}
	fmt.Fprintf(
		w,
		"%s\t%s\t%s\t%d\t%s\t%.4g to %.4g\t%s\t%s\t%s\t%d\t%s\n",
		plain(r.Detector),
		plain(topic),
		name,
		r.Field,
		output.FeedbackDirections[r.Side],
		r.Least,
		r.Most,
		width,
		held,
		samples,
		r.Count,
		strings.Join(ids, " "),
	)
}

// userName returns the name of the user, for the record.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// feedbackAction prints what a command is about to write, and returns the question whether to do it, with what does it; nil
// for a command that changes nothing.
type feedbackAction func(context.Context, *feedbackTool) (question string, write func(context.Context) error, err error)

// feedbackTool reads and writes the feedback topic.
type feedbackTool struct {
	t     terminal
	topic *feedback.Topic
}

// withFeedback prints the faults of a command's flags, or runs it. The time that an answer takes is not limited.
func (t terminal) withFeedback(ctx context.Context, c *config.Config, name string, faults []string, timeout time.Duration, yes bool,
	action feedbackAction) int {
	if c.Detect.Feedback == config.Off {
		faults = append(faults, "ODRADEK_FEEDBACK_TOPIC is off: the workers read none")
	}
	if len(faults) > 0 {
		for _, f := range faults {
			fmt.Fprintf(t.err, "worker %s: %s\n", name, f)
		}
		return exitUsage
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, registry, closeBoth, err := backtestCluster(limited, c)
	if err != nil {
		return t.fail(err)
	}
	question, write, err := action(limited, &feedbackTool{t, page.FeedbackTopic(c, client, registry)})
	if err == nil && write != nil {
		if err = t.agree(ctx, yes, question); err == nil {
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			err = write(limited)
		} else {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	err = errors.Join(err, closeBoth())
	if err != nil {
		return t.fail(err)
	}
	return exitOK
}

// write writes a record and says so.
func (ft *feedbackTool) write(ctx context.Context, f *output.Feedback) error {
	before, err := ft.topic.Client.Admin.Topics(ctx, ft.topic.Name)
	if err == nil {
		err = ft.topic.Say(ctx, f)
	}
	if err != nil {
		return err
	}
	wait := ""
	if !before[ft.topic.Name].Exists {
		wait = ", which is new: workers that run apply it within ten seconds, and what follows within one"
	}
	fmt.Fprintf(ft.t.err, "%s %s is in %s%s\n", strings.ReplaceAll(output.FeedbackKinds[f.Kind], "_", " "), f.ID, ft.topic.Name, wait)
	return nil
}

// removal prints the record of an id, which it would delete.
func (ft *feedbackTool) removal(ctx context.Context, id string) (question string, write func(context.Context) error, err error) {
	all, err := feedback.ReadAll(ctx, ft.topic.Client, ft.topic.Name, ft.bad)
	if err != nil {
		return "", nil, err
	}
	none := fmt.Errorf("feedback: %s has no record %q; worker mute list -all shows them", ft.topic.Name, id)
	f, ok := all[id]
	if !ok {
		return "", nil, none
	}
	what := fmt.Sprintf("anomaly %s", f.Anomaly)
	if f.Anomaly == "" {
		what = fmt.Sprintf("series %s", plain(cmp.Or(f.Keys, "all")))
	}
	fmt.Fprintf(
		ft.t.err,
		"removes %s: %s of %s by %s on %s, reason: %s\n",
		plain(id),
		output.FeedbackKinds[f.Kind],
		what,
		plain(cmp.Or(f.Author, "nobody")),
		time.UnixMicro(f.WrittenAt).UTC().Format(time.RFC3339),
		plain(cmp.Or(f.Reason, "none")),
	)
	return "remove it?", func(ctx context.Context) error {
		ok, err := ft.topic.TakeBack(ctx, id, ft.bad)
		if err == nil && !ok {
			err = none
		}
		if err == nil {
			fmt.Fprintf(ft.t.err, "%s is removed from %s\n", id, ft.topic.Name)
		}
		return err
	}, nil
}

// bad prints what is wrong with a record of the topic.
func (ft *feedbackTool) bad(err error) { fmt.Fprintln(ft.t.err, "warning:", err) }

// feedbackLine is a line of `mute list -json`.
type feedbackLine struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	Anomaly   string     `json:"anomaly,omitempty"`
	Detector  string     `json:"detector,omitempty"`
	Keys      string     `json:"keys,omitempty"`
	Topic     string     `json:"topic,omitempty"`
	Partition *int32     `json:"partition,omitempty"`
	From      *time.Time `json:"from,omitempty"`
	To        *time.Time `json:"to,omitempty"`
	Direction string     `json:"direction"`
	Author    string     `json:"author"`
	Reason    string     `json:"reason"`
	WrittenAt time.Time  `json:"written_at"`
}

func (ft *feedbackTool) list(ctx context.Context, anomalies, asJSON bool) error {
	all, err := feedback.ReadAll(ctx, ft.topic.Client, ft.topic.Name, ft.bad)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(ft.t.out)
	enc.SetEscapeHTML(false)
	w := tabwriter.NewWriter(ft.t.out, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(w, "id\tkind\tdetector\ttopic\tkeys\tdirection\tfrom\tto\tauthor\treason")
	}
	text := func(t *time.Time, none string) string {
		if t == nil {
			return none
		}
		return t.Format(time.RFC3339)
	}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		f := all[id]
		rule, isMute := feedback.MuteOf(&f)
		if !isMute && !anomalies {
			continue
		}
		if r := f.Resume; r != nil {
			f.Keys = fmt.Sprintf("%s/%d at offset %d", r.Topic, r.Partition, r.Offset)
		}
		from, to := page.Span(&f)
		line := feedbackLine{id, output.FeedbackKinds[f.Kind], f.Anomaly, f.Detector, f.Keys, f.Topic, f.Partition, from, to,
			output.FeedbackDirections[f.Direction], f.Author, f.Reason, page.TimeOf(f.WrittenAt)}
		if asJSON {
			if err := enc.Encode(line); err != nil {
				return err
			}
			continue
		}
		over := ""
		if isMute && rule.Rule.To != rules.Forever && rule.Rule.To < time.Now().UnixMicro() {
			over = " (over)"
		}
		where := cmp.Or(f.Topic, "all")
		if f.Partition != nil {
			where += fmt.Sprintf("/%d", *f.Partition)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s%s\t%s\t%s\n", plain(id), line.Kind, plain(cmp.Or(f.Detector, "all")), plain(where),
			plain(cmp.Or(f.Keys, f.Anomaly, "all")), line.Direction, text(line.From, "always"), text(line.To, "never"), over, plain(f.Author),
			plain(f.Reason))
	}
	return w.Flush()
}
