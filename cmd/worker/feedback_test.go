package main

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

func TestMuteFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "say add, list or remove"},
		{"add", "one of -to, -for and -forever"},
		{"add -for 1h -forever", "one of -to, -for and -forever"},
		{"add -to noon", "-to \"noon\" is not a time"},
		{"add -maintenance -for 1h", "a maintenance has a begin and an end"},
		{"add -forever -direction up", "-direction \"up\" is none of both, above, below"},
		{"add -forever -detector spike", "-detector \"spike\" is none of"},
		{"add -all -from 2026-01-02T00:00:00Z -to 2026-01-01T00:00:00Z", "it ends before it begins"},
		{"remove", "name the rule by its id"},
		{"remove 12345678 -id 87654321", "name one rule"},
		{"feedback maybe -anomaly 12", "say confirm, false-alarm or rules, not \"maybe\""},
		{"feedback confirm -anomaly 12", "is no id of an anomaly"},
		{"add -for 1h", "give the series with -keys, or -all"},
		{"add -for 1h -detector near -topic in", "give the series with -keys, or -all"},
		{"add -for 1h -keys a -all", "exclude each other"},
	} {
		term, _, errs := console("ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_SCHEMA_REGISTRY_URL=http://localhost:1")
		args := strings.Fields(c.args)
		run := term.mute
		if len(args) > 0 && args[0] == "feedback" {
			run, args = term.feedback, args[1:]
		}
		if code := run(context.Background(), args); code != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
	}
}

// openedOf returns the records of a topic of anomalies that open one.
func openedOf(t *testing.T, ctx context.Context, c *kafkatest.Cluster, topic string) (opened []output.Anomaly) {
	t.Helper()
	must(t, c.Admin().WaitStable(ctx, topic))
	recs, err := c.Admin().ReadAll(ctx, topic, true)
	must(t, err)
	for i := range recs {
		a, err := output.DecodeAnomaly(recs[i].Value)
		must(t, err)
		if a.Kind == 0 {
			opened = append(opened, a)
		}
	}
	return opened
}

// TestMutes: what is muted when a worker starts opens no anomaly, its scores are published, and what is
// removed while it runs opens some.
func TestMutes(t *testing.T) { realCluster(t, testMutes) }

func testMutes(t *testing.T, c *kafkatest.Cluster) {
	topic, environ := stateFixture(t, c)
	environ = append(environ, "ODRADEK_DETECTOR_CHANGE_THRESHOLD=fixed:1.8")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	do := func(command func(terminal) func(context.Context, []string) int, args ...string) string {
		t.Helper()
		term, out, errs := console(environ...)
		if code := command(term)(ctx, args); code != exitOK {
			t.Fatalf("%v: exit %d: %s", args, code, errs)
		}
		return out.String()
	}
	mute := func(term terminal) func(context.Context, []string) int { return term.mute }
	say := func(term terminal) func(context.Context, []string) int { return term.feedback }
	opened := func() []output.Anomaly { return openedOf(t, ctx, c, topic+"-g-anomalies") }
	do(mute, "add", "-yes", "-id", "all", "-all", "-forever", "-detector", "change", "-reason", "a test")
	if out := do(mute, "list"); !strings.Contains(out, "all") || !strings.Contains(out, "never") || !strings.Contains(out, "a test") {
		t.Errorf("list: %s", out)
	}
	runUntil(t, c, environ, topic, func() {
		if n := len(opened()); n > 0 {
			t.Errorf("%d anomalies opened although all are muted", n)
		}
		do(mute, "remove", "all", "-yes")
		for {
			term, _, errs := console(environ...)
			if code := term.generate(ctx, []string{"-topic", topic, "-sensors", "20", "-rate", "20000", "-records", "4000", "-fault-every",
				"100"}); code != exitOK {
				t.Errorf("generate: %s", errs)
				break
			}
			if err := c.Admin().WaitCommitted(ctx, topic+"-g", topic); err != nil {
				t.Error(err)
				break
			}
			if len(opened()) > 0 || ctx.Err() != nil {
				break
			}
		}
	})
	all := opened()
	if len(all) == 0 {
		t.Fatal("no anomaly opened after the rule was removed")
	}
	scores, err := c.Admin().ReadAll(ctx, topic+"-g-scores", true)
	must(t, err)
	if len(scores) < 6000 {
		t.Errorf("%d scores", len(scores))
	}
	id := hex.EncodeToString(all[len(all)-1].ID[:])
	do(say, "false-alarm", "-yes", "-anomaly", id, "-author", "me")
	do(say, "confirm", "-yes", "-anomaly", id, "-author", "me") // what is said last holds
	if out := do(mute, "list", "-all"); !strings.Contains(out, "confirm") || strings.Contains(out, "false_alarm") ||
		!strings.Contains(out, id) {
		t.Errorf("list: %s", out)
	}
}

// TestLearn: anomalies like labelled false alarms open with severity 0 and name them; the labels can be listed and taken back,
// and one of an anomaly that the topic does not have teaches nothing.
func TestLearn(t *testing.T) { eachCluster(t, testLearn) }

func testLearn(t *testing.T, c *kafkatest.Cluster) {
	topic, environ := stateFixture(t, c)
	environ = append(environ, "ODRADEK_DETECTOR_CHANGE_THRESHOLD=fixed:1.8", "ODRADEK_LEARN_FROM=1")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	do := func(command func(terminal) func(context.Context, []string) int, args ...string) (out, errs string) {
		t.Helper()
		term, o, e := console(environ...)
		if code := command(term)(ctx, args); code != exitOK {
			t.Fatalf("%v: exit %d: %s", args, code, e)
		}
		return o.String(), e.String()
	}
	mute := func(term terminal) func(context.Context, []string) int { return term.mute }
	say := func(term terminal) func(context.Context, []string) int { return term.feedback }
	anomalies := func() []output.Anomaly { return openedOf(t, ctx, c, topic+"-g-anomalies") }
	generate := func() bool {
		term, _, errs := console(environ...)
		if code := term.generate(ctx, []string{"-topic", topic, "-sensors", "20", "-rate", "20000", "-records", "4000", "-fault-every",
			"100"}); code != exitOK {
			t.Errorf("generate: %s", errs)
			return false
		}
		if err := c.Admin().WaitCommitted(ctx, topic+"-g", topic); err != nil {
			t.Error(err)
			return false
		}
		return ctx.Err() == nil
	}
	labels := map[[16]byte]bool{}
	runUntil(t, c, environ, topic, func() {
		for len(anomalies()) == 0 && generate() {
		}
		for _, a := range anomalies() {
			if a.Like != nil {
				t.Errorf("%+v before there are labels", a)
			}
			if len(labels) < 4 {
				labels[a.ID] = true
				if _, errs := do(say, "false-alarm", "-yes", "-anomaly", hex.EncodeToString(a.ID[:])); strings.Contains(errs, "warning") {
					t.Error(errs)
				}
			}
		}
		for generate() {
			for _, a := range anomalies() {
				if a.Like == nil {
					continue
				}
				if a.Severity != 0 || len(a.Like.Labels) == 0 || !labels[a.Like.Labels[0]] {
					t.Errorf("severity %d, like %+v", a.Severity, a.Like)
				}
				return
			}
		}
		t.Error("no anomaly is like the labelled ones")
	})
	if out, _ := do(say, "rules"); strings.Count(out, "\n") < 3 || !strings.Contains(out, "all") {
		t.Errorf("rules: %s", out)
	}
	for id := range labels {
		do(mute, "remove", "-yes", "-id", "anomaly/"+hex.EncodeToString(id[:]))
	}
	if out, _ := do(say, "rules"); strings.Count(out, "\n") != 1 {
		t.Errorf("rules after the labels are taken back: %s", out)
	}
	gone := strings.Repeat("ab", 16)
	if _, errs := do(say, "false-alarm", "-yes", "-anomaly", gone); !strings.Contains(errs, "learn nothing") {
		t.Errorf("a label of an unknown anomaly: %s", errs)
	}
	if out, _ := do(mute, "list", "-all"); !strings.Contains(out, gone) {
		t.Errorf("list: %s", out)
	}
}
