package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
)

// Level is the severity of a finding of `check`.
type Level string

// The severities of findings.
const (
	LevelOK    Level = "ok"
	LevelWarn  Level = "warn"  // run starts, and may behave in an unintended way
	LevelFault Level = "fault" // run does not start, unless Finding.Starts is set
)

// Finding is one line of `check`.
type Finding struct {
	Level  Level  `json:"level"`
	What   string `json:"what"`   // the setting, topic or part
	Detail string `json:"detail"` // what was found
	Fix    string `json:"fix,omitempty"`
	// Starts marks a fault that check reports and with which run starts all the same, such as a series in several partitions.
	Starts bool `json:"run_starts,omitempty"`

	err     error  // cause of a fault; it decides whether a retry may help
	suspect bool   // of a warning: run logs it
	key     string // see alike
}

// named returns the finding with settings named by their variables, for people.
func (f Finding) named() Finding {
	f.Detail, f.Fix = config.WithVariables(f.Detail), config.WithVariables(f.Fix)
	return f
}

// Report has the findings of `check` so far.
type Report struct{ Findings []Finding }

// OK adds a finding without a fault.
func (r *Report) OK(what, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Level: LevelOK, What: what, Detail: fmt.Sprintf(format, args...)})
}

// Warn adds a finding with which run starts, and may behave in an unintended way.
func (r *Report) Warn(what, detail, fix string) {
	r.Findings = append(r.Findings, Finding{Level: LevelWarn, What: what, Detail: detail, Fix: fix})
}

// Fault adds a fault with which run does not start, and its remedy.
func (r *Report) Fault(what, detail, fix string) {
	r.Findings = append(r.Findings, Finding{Level: LevelFault, What: what, Detail: detail, Fix: fix})
}

// wrong adds a fault that does not stop run.
func (r *Report) wrong(what, detail, fix string) {
	r.Findings = append(r.Findings, Finding{Level: LevelFault, What: what, Detail: detail, Fix: fix, Starts: true})
}

// broken adds the fault of a request that run needs.
func (r *Report) broken(what string, err error, fix string) {
	r.Findings = append(r.Findings, Finding{Level: LevelFault, What: what, Detail: err.Error(), Fix: fix, err: err})
}

// unasked adds the failure of a request that run does not make: a refusal is a fault, while
// run waits for an answer that brokers cannot give yet.
func (r *Report) unasked(what string, err error) {
	if kafka.ClassOf(err) == kafka.Fatal {
		r.broken(what, err, "")
		return
	}
	r.Warn(what, "no answer: "+err.Error(), "")
}

// Faulty reports whether there is a fault, even one with which run starts.
func (r *Report) Faulty() bool {
	for _, f := range r.Findings {
		if f.Level == LevelFault {
			return true
		}
	}
	return false
}

// Print writes a line for each finding.
func (r *Report) Print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		f = f.named()
		detail := strings.ReplaceAll(f.Detail, "\n", "; ")
		if f.Fix != "" {
			detail += " -> " + f.Fix
		}
		if f.Starts {
			detail += " (run starts nevertheless)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", f.Level, f.What, detail)
	}
	tw.Flush()
}

// PrintJSON writes a JSON object for each finding, one a line.
func (r *Report) PrintJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, f := range r.Findings {
		if err := enc.Encode(f.named()); err != nil {
			return err
		}
	}
	return nil
}

// located returns the problem of a fault with its place in the settings file.
func located(f config.Fault) string {
	if f.At == "" {
		return f.Problem
	}
	return f.At + ": " + f.Problem
}

// Offline makes the checks that need no network; executor reports on the executor that run would
// use.
func Offline(r *Report, environ []string, executor func(*Report, *config.Config)) *config.Config {
	c, faults, warnings := config.Parse(environ)
	for _, f := range faults {
		r.Fault(f.Name, located(f), f.Fix)
	}
	for _, f := range warnings {
		if f.At != "" { // a file that others may read, which may be intended
			r.Warn(f.Name, located(f), f.Fix)
		} else {
			r.wrong(f.Name, f.Problem, f.Fix)
		}
	}
	if len(faults) == 0 {
		all, given := c.Count()
		r.OK("configuration", "%d settings, %d of them given", all, given)
		r.OK(config.Prefix+"OUTPUT_FORMAT", "scores and anomalies are written in %s", c.OutputText())
		for _, m := range c.Mappings() {
			r.OK(m.MappingPrefix()+"LATENESS_BY", "%s", m.LatenessText())
		}
		if preset, list := c.Expanded(); preset != "" {
			for _, d := range list {
				r.OK(config.Prefix+"PRESET", "%s: %s", preset, d)
			}
			if c.Detect.Silence == 0 {
				r.OK(config.Prefix+"SILENCE", "0: series that stop are not reported; a few times the interval of their readings is a good value")
			}
		}
		for _, f := range c.Unsupported() {
			r.Warn(f.Name, f.Problem, f.Fix)
		}
		executor(r, c)
	}
	if k := &c.Kafka; k.SASLMechanism != "" && !strings.HasPrefix(k.SASLMechanism, "SCRAM") && !k.TLS {
		r.Warn(config.Prefix+"KAFKA_SASL_MECHANISM", k.SASLMechanism+" without TLS sends the credentials in clear text",
			"set "+config.Prefix+"KAFKA_TLS=true or use SCRAM")
	}
	if c.Kafka.TLSInsecure {
		r.Warn(config.Prefix+"KAFKA_TLS_INSECURE", "the brokers' certificates are not verified", "for tests only")
	}
	for _, u := range c.Registry.URLs {
		if strings.HasPrefix(u, "http://") && (c.Registry.Password.Reveal() != "" || c.Registry.Token.Reveal() != "" ||
			c.Registry.OAuth.TokenURL != "" || strings.Contains(u, "@")) {
			r.Warn(config.Prefix+"SCHEMA_REGISTRY_URL", "credentials are sent in clear text over http", "use https")
		}
	}
	if c.Cycle.Guarantee == "at_least_once" {
		r.Warn(config.Prefix+"GUARANTEE", "at_least_once: after a crash some outputs come twice",
			"dedupe scores by source topic, partition, offset and detector, anomalies by id and revision")
	}
	if c.Keys.MaxKeys == 0 && c.Keys.TTL == 0 {
		r.Warn(config.Prefix+"MAX_KEYS", "no limit of series and no "+config.Prefix+
			"TTL: memory grows with every new series key", "set one of them")
	}
	return c
}
