package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"odradek/cmd/worker/config"
	"odradek/processor/kafka"
)

// level is the severity of a finding of `check`.
type level string

const (
	levelOK    level = "ok"
	levelWarn  level = "warn"  // run starts, and may behave in an unintended way
	levelFault level = "fault" // run does not start, unless finding.Starts is set
)

// finding is one line of `check`.
type finding struct {
	Level  level  `json:"level"`
	What   string `json:"what"`   // the setting, topic or part
	Detail string `json:"detail"` // what was found
	Fix    string `json:"fix,omitempty"`
	// Starts: run starts in spite of the fault, and behaves in an unintended way.
	Starts bool `json:"run_starts,omitempty"`

	err     error  // cause of a fault; it decides whether a retry may help
	suspect bool   // of a warning: run logs it
	key     string // see alike
}

// report has the findings of `check` so far.
type report struct{ findings []finding }

func (r *report) ok(what, format string, args ...any) {
	r.findings = append(r.findings, finding{Level: levelOK, What: what, Detail: fmt.Sprintf(format, args...)})
}

func (r *report) warn(what, detail, fix string) {
	r.findings = append(r.findings, finding{Level: levelWarn, What: what, Detail: detail, Fix: fix})
}

func (r *report) fault(what, detail, fix string) {
	r.findings = append(r.findings, finding{Level: levelFault, What: what, Detail: detail, Fix: fix})
}

// wrong adds a fault in spite of which run starts.
func (r *report) wrong(what, detail, fix string) {
	r.findings = append(r.findings, finding{Level: levelFault, What: what, Detail: detail, Fix: fix, Starts: true})
}

// broken adds the fault of a request that run needs.
func (r *report) broken(what string, err error, fix string) {
	r.findings = append(r.findings, finding{Level: levelFault, What: what, Detail: err.Error(), Fix: fix, err: err})
}

// unasked adds the failure of a request that run does not make: a refusal is a fault, while
// run waits for an answer that brokers cannot give yet.
func (r *report) unasked(what string, err error) {
	if kafka.ClassOf(err) == kafka.Fatal {
		r.broken(what, err, "")
		return
	}
	r.warn(what, "cannot be asked: "+err.Error(), "")
}

func (r *report) faulty() bool {
	for _, f := range r.findings {
		if f.Level == levelFault {
			return true
		}
	}
	return false
}

func (r *report) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.findings {
		detail := strings.ReplaceAll(f.Detail, "\n", "; ")
		if f.Fix != "" {
			detail += " -> " + f.Fix
		}
		if f.Starts {
			detail += " (run starts all the same)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", f.Level, f.What, detail)
	}
	tw.Flush()
}

func (r *report) printJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, f := range r.findings {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func (t terminal) check(ctx context.Context, args []string) int {
	fs := t.flags("check", `Names every fault of the configuration at once. With -online it also asks the cluster and the schema registry:
brokers, TLS and SASL, topics, permissions, retention against the replay limit, schemas, a few live records, and whether the state
that is stored can be gone on from. Nothing is written anywhere. Exits with 1 if there is a fault: run does not start with it, or
the fault says that it does. run makes the same checks at its start.`,
		"  worker check\n  worker check -online\n  worker check -online -json | jq 'select(.level != \"ok\")'")
	online := fs.Bool("online", false, "ask the cluster and the schema registry, too")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	timeout := fs.Duration("timeout", 30*time.Second, "time limit of -online")
	if code, done := parse(fs, args); done {
		return code
	}
	var r report
	c := checkOffline(&r, t.environ)
	if *online {
		ctx, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		checkOnline(ctx, &r, c)
	}
	if *asJSON {
		if err := r.printJSON(t.out); err != nil {
			return t.fail(err)
		}
	} else {
		r.print(t.out)
	}
	if r.faulty() {
		return exitFailed
	}
	return exitOK
}

// checkOffline makes the checks that need no network.
func checkOffline(r *report, environ []string) *config.Config {
	c, faults, warnings := config.Parse(environ)
	for _, f := range faults {
		r.fault(f.Name, f.Problem, f.Fix)
	}
	for _, f := range warnings {
		r.wrong(f.Name, f.Problem, f.Fix)
	}
	if len(faults) == 0 {
		all, given := c.Count()
		r.ok("configuration", "%d settings, %d of them given", all, given)
		checkExecutor(r, c)
	}
	if k := &c.Kafka; k.SASLMechanism == "PLAIN" && !k.TLS {
		r.warn(config.Prefix+"KAFKA_SASL_MECHANISM", "PLAIN without TLS sends the password readable",
			"set "+config.Prefix+"KAFKA_TLS=true or use SCRAM")
	}
	if c.Kafka.TLSInsecure {
		r.warn(config.Prefix+"KAFKA_TLS_INSECURE", "the brokers' certificates are not verified", "for tests only")
	}
	for _, u := range c.Registry.URLs {
		if strings.HasPrefix(u, "http://") && (c.Registry.Password.Reveal() != "" || c.Registry.Token.Reveal() != "" ||
			strings.Contains(u, "@")) {
			r.warn(config.Prefix+"SCHEMA_REGISTRY_URL", "credentials go over http, readable", "use https")
		}
	}
	if c.Cycle.Guarantee == "at_least_once" {
		r.warn(config.Prefix+"GUARANTEE", "at_least_once: after a crash some outputs come twice",
			"dedupe scores by source topic, partition, offset and detector, anomalies by id and revision")
	}
	if c.Keys.MaxKeys == 0 && c.Keys.TTL == 0 {
		r.warn(config.Prefix+"MAX_KEYS", "no limit of series and no "+config.Prefix+
			"TTL: memory grows with every new series key", "set one of them")
	}
	return c
}
