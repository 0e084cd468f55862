package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/cycle"
)

// alarmSettings decide which scores of a detector are too high, and when they make an
// anomaly.
type alarmSettings struct {
	Threshold   string        `env:"THRESHOLD" live:"true" derived:"conformal:0.002, or the op's" example:"mad:6" doc:"Which scores are too high: fixed:3.5 is a bound; conformal:0.002, quantile:0.995, mad:6 and mean:1.5 follow the series' own scores; off judges none. See docs/detectors.md."`
	History     HistoryLength `env:"HISTORY" live:"true" derived:"512, or the op's" values:"32 to 65536, or a time of up to 3660d" example:"3d" doc:"Scores of a series that threshold and severity are computed from, 5 to 8 bytes each. 3d spreads 2048 scores over this time, 3d:4096 that many: use it for data with a cycle."`
	PerDay      float64       `env:"ALARMS_PER_DAY" live:"true" envDefault:"0" min:"0" max:"1000000000" example:"2" doc:"False alarms that a series may have a day, in place of THRESHOLD. It holds for up to HISTORY+1 scores an alarm, which worker check computes. 0: not set."`
	Warmup      int           `env:"WARMUP" live:"true" derived:"64; 0 with a fixed threshold" min:"0" max:"1048576" example:"256" doc:"Scores of a series before it can have an anomaly."`
	OpenAfter   int           `env:"OPEN_AFTER" live:"true" envDefault:"1" min:"1" max:"65536" example:"3" doc:"Consecutive samples with scores above the threshold that open an anomaly."`
	CloseAfter  int           `env:"CLOSE_AFTER" live:"true" derived:"8, or the op's" min:"1" max:"65536" example:"32" doc:"Consecutive samples with ordinary scores that close it."`
	Release     float64       `env:"RELEASE" live:"true" envDefault:"1" min:"0.01" max:"1" example:"0.8" doc:"Share of the threshold below which a score is ordinary while an anomaly is open: a hysteresis."`
	Admission   string        `env:"ADMISSION" live:"true" envDefault:"direct" oneof:"direct|late" example:"late" doc:"When the scores of an anomaly enter the HISTORY: late is when it has ended. See docs/detectors.md."`
	MinDuration time.Duration `env:"MIN_DURATION" live:"true" envDefault:"0s" min:"0s" max:"8760h" example:"30s" doc:"Event time for which scores must exceed the threshold before an anomaly opens."`
	MergeGap    time.Duration `env:"MERGE_GAP" live:"true" envDefault:"0s" min:"0s" max:"8760h" example:"5m" doc:"Event time that an anomaly stays open after its last score above the threshold."`
	UpdateEvery string        `env:"UPDATE_EVERY" live:"true" envDefault:"auto" values:"auto, 0 to 1000000000, or a time" example:"5m" doc:"Samples, or event time, from one update of an open anomaly to the next; auto: a minute and a ninth of its length. A higher band of severity is always an update; 0: only that."`
	Recurring   string        `env:"RECURRING_SEVERITY" live:"true" envDefault:"critical" values:"info, minor, major, critical, or 1 to 100" example:"info" doc:"Highest severity of an anomaly that recurs, such as a nightly job's; critical and 100 change nothing. See docs/outputs.md."`
	Shadow      bool          `env:"SHADOW" live:"true" envDefault:"false" example:"true" doc:"Try a detector beside the others: its anomalies go to ODRADEK_SHADOW_TOPIC. See docs/operations/change-settings.md."`
}

// lateAdmission is the value of ADMISSION with which the scores of an anomaly wait until it ends.
const lateAdmission = "late"

// The defaults of settings, but for ops that have others (detectors.Spec.Defaults).
const (
	closeAfter     = 8
	usualThreshold = "conformal:0.002"
)

// deriveAlarm sets the defaults of d that depend on its other settings.
func (c *Config) deriveAlarm(d *DetectorSettings) {
	warmup := DetectorPrefix(d.Name) + "WARMUP"
	for _, s := range c.settings {
		if s.name == warmup && s.source == "default" {
			if r, err := threshold.Parse(d.Alarm.Threshold); err == nil {
				d.Alarm.Warmup = r.Warmup
			}
		}
	}
}

// judges reports whether the verdicts on scores are used.
func (c *Config) judges() bool { return c.Detect.Anomalies || c.Output.Scores == "anomalous" }

// thresholdOf returns the detector's threshold, nil for none.
func (c *Config) thresholdOf(d *DetectorSettings) (*threshold.Params, error) {
	r, err := threshold.Parse(d.Alarm.Threshold)
	if err != nil || r.Kind == threshold.Off || !c.judges() && !c.judgedByAny(d) {
		return nil, err
	}
	d.Alarm.History.Apply(&r)
	r.Warmup = d.Alarm.Warmup
	if op, ok := detectors.OpByName(d.Op); ok {
		r.Bounded = op.Spec().Bounded
		r.Runs = op.Spec().Runs && d.Smooth < 2 && r.Span == 0
	}
	if d.Alarm.Admission == lateAdmission {
		r.Late = threshold.Late{Open: d.Alarm.OpenAfter, Close: d.Alarm.CloseAfter}
	}
	return &r, r.Check()
}

// policy returns the policy by which anomalies open and close.
func (a *alarmSettings) policy() *anomaly.Policy {
	r := &anomaly.Policy{
		OpenAfter: a.OpenAfter, CloseAfter: a.CloseAfter, Release: a.Release,
		MinDuration: a.MinDuration.Microseconds(), MergeGap: a.MergeGap.Microseconds(),
	}
	if err := cmp.Or(setUpdates(r, a.UpdateEvery), setRecurring(r, a.Recurring)); err != nil {
		panic(err) // the checker has refused it
	}
	return r
}

// setRecurring sets the highest severity of an anomaly that recurs.
func setRecurring(r *anomaly.Policy, text string) error {
	text = strings.TrimSpace(text)
	if r.Recurring = threshold.Highest(text); r.Recurring == 0 {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return fmt.Errorf("%q is not info, minor, major, critical or a number from 1 to 100", text)
		}
		r.Recurring = uint8(n)
	}
	if r.Recurring == 100 {
		r.Recurring = 0
	}
	return nil
}

// autoUpdates is the value of UPDATE_EVERY for anomaly.DefaultUpdateAfter and anomaly.DefaultUpdateShare.
const autoUpdates = "auto"

// setUpdates sets when an anomaly is updated.
func setUpdates(r *anomaly.Policy, text string) error {
	if text = strings.TrimSpace(text); text == autoUpdates {
		r.UpdateAfter, r.UpdateShare = anomaly.DefaultUpdateAfter, anomaly.DefaultUpdateShare
		return nil
	}
	if n, err := strconv.Atoi(text); err == nil {
		if r.UpdateEvery = n; n < 0 || n > 1_000_000_000 {
			return fmt.Errorf("%d samples, use 0 to 1000000000", n)
		}
		return nil
	}
	after, err := time.ParseDuration(text)
	if err != nil || after < time.Millisecond || after > 8760*time.Hour {
		return fmt.Errorf("%q is not %s, a number of samples such as 100, or a time from 1ms to 8760h such as 5m", text, autoUpdates)
	}
	r.UpdateAfter = after.Microseconds()
	return nil
}

// alarm checks the alarm settings of a detector.
func (ch *checker) alarm(short string, d *DetectorSettings) {
	switch {
	case d.Alarm.Shadow && !ch.c.Detect.Anomalies:
		ch.add(short+"SHADOW", "true, but "+Prefix+"ANOMALIES is false", "set "+Prefix+"ANOMALIES=true or remove it")
	case d.Alarm.Shadow && d.Alarm.Threshold == Off:
		ch.add(short+"SHADOW", "true, but "+Prefix+short+"THRESHOLD=off makes no anomalies", "set a threshold or remove it")
	}
	if err := setUpdates(new(anomaly.Policy), d.Alarm.UpdateEvery); err != nil {
		ch.add(short+"UPDATE_EVERY", err.Error(), "")
	}
	if err := setRecurring(new(anomaly.Policy), d.Alarm.Recurring); err != nil {
		ch.add(short+"RECURRING_SEVERITY", err.Error(), "")
	}
	params := threshold.New(threshold.Quantile, 0.5)
	if d.Alarm.History.Apply(&params); params.Check() != nil {
		ch.add(short+"HISTORY", strings.TrimPrefix(params.Check().Error(), "threshold: "), "")
	}
	r, err := threshold.Parse(d.Alarm.Threshold)
	perDay := !(d.Alarm.PerDay <= 0) // NaN, too
	switch {
	case perDay && !ch.c.isDefault(short+"THRESHOLD"):
		ch.add(short+"ALARMS_PER_DAY", "set, and THRESHOLD="+d.Alarm.Threshold+" is another threshold", "keep one of them")
		return
	case perDay && err != nil:
		ch.add(short+"ALARMS_PER_DAY", strings.TrimPrefix(err.Error(), "threshold: "), "")
		return
	case err != nil:
		ch.add(short+"THRESHOLD", strings.TrimPrefix(err.Error(), "threshold: "), "")
		return
	case r.Kind == threshold.Off && ch.c.Output.Scores == "anomalous":
		ch.add(short+"THRESHOLD", "off, but "+Prefix+"SCORES=anomalous", "set which scores are anomalous, such as conformal:0.002")
		return
	}
	if r.Kind == threshold.Off || !ch.ok(short+"HISTORY", short+"WARMUP") {
		return
	}
	ch.admission(short, d)
	d.Alarm.History.Apply(&r)
	if r.Warmup = d.Alarm.Warmup; r.Check() != nil {
		ch.add(short+"HISTORY", strings.TrimPrefix(r.Check().Error(), "threshold: "), "")
	}
	if ch.ok(short+"CLOSE_AFTER", short+"RELEASE") && d.Alarm.Release < 1 && r.Value < 0 {
		ch.add(short+"RELEASE", fmt.Sprintf("a share of a threshold below 0 (%s) means nothing", d.Alarm.Threshold), "use 1")
	}
}

// admission checks ADMISSION of a detector with a threshold.
func (ch *checker) admission(short string, d *DetectorSettings) {
	if d.Alarm.Admission != lateAdmission {
		return
	}
	switch spec := specOf(d.Op); {
	case d.isAny():
		ch.add(short+"ADMISSION", "late, but an ensemble with COMBINE=any compares its members' scores with their thresholds",
			"remove it, or set it for its members")
	case spec != nil && spec.Runs:
		ch.add(short+"ADMISSION", fmt.Sprintf("late, but the scores of op %s wait for the end of their run anyway", d.Op), "remove it")
	case d.Alarm.History.span > 0:
		ch.add(short+"ADMISSION", "late, but "+Prefix+short+"HISTORY="+d.Alarm.History.String()+" is a time", "use a HISTORY of the last scores")
	}
}

// Anomalies reports whether there can be anomalies, so that their topic is needed.
func (c *Config) Anomalies() bool {
	if !c.Detect.Anomalies || c.Detect.Silence > 0 {
		return c.Detect.Anomalies
	}
	return slices.ContainsFunc(c.Detectors, func(d DetectorSettings) bool { return d.Alarm.Threshold != Off })
}

// Shadow reports whether there can be anomalies in shadow mode, so that their topic is needed: a detector is in it, or is
// said not to be, so that it can be without a restart.
func (c *Config) Shadow() bool {
	return c.Anomalies() && slices.ContainsFunc(c.Mappings(), func(settings *Config) bool {
		return slices.ContainsFunc(settings.Detectors, func(d DetectorSettings) bool {
			return d.Alarm.Shadow || !settings.isDefault(strings.TrimPrefix(DetectorPrefix(d.Name), Prefix)+"SHADOW")
		})
	})
}

// AnomaliesTopic returns the name of the topic of the anomalies.
func (c *Config) AnomaliesTopic() string { return c.Output.Topics[cycle.Anomalies] }

// Blocks reports whether there can be blocks, so that their topic is needed.
func (c *Config) Blocks() bool {
	return c.Detect.Blocks && slices.ContainsFunc(c.Detectors, func(d DetectorSettings) bool {
		if specOf(d.Op) == nil {
			return false
		}
		det, err := d.Build()
		_, ok := det.(detectors.Blocker)
		return err == nil && ok
	})
}

func (ch *checker) silence() {
	after, ttl := ch.c.Detect.Silence, ch.c.Keys.TTL
	if after == 0 || !ch.ok("SILENCE", "TTL", "ANOMALIES") {
		return
	}
	switch {
	case !ch.c.Detect.Anomalies:
		ch.add("SILENCE", "set, but "+Prefix+"ANOMALIES is false", "set "+Prefix+"ANOMALIES=true or remove it")
	case ttl > 0 && after >= ttl:
		ch.add("SILENCE", fmt.Sprintf("%v is not less than %sTTL=%v: a series is forgotten before it is silent", after, Prefix, ttl),
			"lower it, or raise "+Prefix+"TTL")
	case after.Microseconds() == 0:
		ch.add("SILENCE", fmt.Sprintf("%v is less than a microsecond", after), "")
	}
}
