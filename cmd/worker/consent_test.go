package main

import (
	"context"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// TestConsent: each command that changes something prints what it touches and asks. Without a terminal, or with another
// answer than yes, it changes nothing; with -yes it does not ask.
func TestConsent(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	topic, environ := stateFixture(t, c)
	environ = append(environ, "ODRADEK_DETECTOR_CHANGE_THRESHOLD=fixed:1.8")
	if _, err := c.ProduceAcked(t.Context(), []kafkatest.Record{{Topic: topic, Key: []byte("x"), Value: []byte("no reading")}}); err != nil {
		t.Fatal(err)
	}
	runUntil(t, c, environ, topic, nil)
	cfg, _, _ := config.Parse(environ)
	ids := openedOf(t, t.Context(), c, topic+"-g-anomalies")
	if len(ids) == 0 {
		t.Fatal("no anomaly")
	}
	id := hex.EncodeToString(ids[0].ID[:])
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	stdin := os.Stdin
	os.Stdin = null // no terminal
	t.Cleanup(func() { os.Stdin, answers = stdin, nil })
	// changed is all that the commands may change.
	changed := func() string {
		var all strings.Builder
		for _, name := range []string{topic, topic + "-g-feedback", cfg.ChangelogTopic(topic)} {
			recs, err := c.Admin().ReadAll(t.Context(), name, true)
			if name == topic+"-g-feedback" && err != nil {
				continue // it does not exist yet
			}
			must(t, err)
			for i := range recs {
				all.WriteString(name + string(recs[i].Key) + string(recs[i].Value) + "\n")
			}
		}
		return all.String()
	}
	every := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, "sensor-0000"+string(rune('0'+i)))
		}
		return strings.Join(names, ", ")
	}
	mute := func(term terminal, args []string) int { return term.mute(context.Background(), args) }
	feedback := func(term terminal, args []string) int { return term.feedback(context.Background(), args) }
	state := func(term terminal, args []string) int { return term.state(context.Background(), args) }
	dlq := func(term terminal, args []string) int { return term.dlq(context.Background(), args) }
	for _, command := range []struct {
		run  func(terminal, []string) int
		args string
		want []string
	}{
		{mute, "add -id a -for 1h -keys sensor-0000?",
			[]string{"mutes all detectors on 10 of the 20 series", every(10)}},
		{mute, "add -id b -for 1h -keys sensor-00007", []string{"on 1 of the 20 series that the group has state of: sensor-00007\n"}},
		{mute, "add -id c -for 1h -keys pump-*", []string{`warning: "pump-*" matches none of the 20 series`}},
		{mute, "add -id d -for 1h -all -detector change", []string{"mutes detector change on 20 of the 20 series", "sensor-00019"}},
		{mute, "add -id e -for 1h -all -topic " + topic + " -partition 1", []string{"mutes all detectors on"}},
		{mute, "remove -id b", []string{"removes b: mute of series sensor-00007"}},
		{feedback, "false-alarm -anomaly " + id[:8], []string{"false_alarm: anomaly " + id + " of change, series " + string(ids[0].Key)}},
		{feedback, "confirm -anomaly " + strings.ToUpper(id), []string{"confirm: anomaly " + id}},
		{mute, "remove -id anomaly/" + id, []string{"removes anomaly/" + id + ": confirm of anomaly " + id}},
		{dlq, "redrive -all", []string{"would send 1"}},
		{state, "reset -topic " + topic, []string{"forget 20 series of 4 partitions?", "series are forgotten, to begin at offset"}},
	} {
		run := func(input io.Reader, args string) (int, string) {
			answers = input
			term, _, errs := console(environ...)
			return command.run(term, strings.Fields(args)), errs.String()
		}
		before := changed()
		for name, input := range map[string]io.Reader{"no terminal": nil, "an end": strings.NewReader(""), "no": strings.NewReader("no\n"),
			"an empty line": strings.NewReader("\n")} {
			code, errs := run(input, command.args)
			for _, want := range append(command.want, "nothing was changed") {
				question := strings.HasSuffix(want, "?") && input == nil // it is not asked
				if !strings.Contains(errs, want) && !question {
					t.Errorf("%s, %s: %s; want %q", command.args, name, errs, want)
				}
			}
			if stays := strings.HasPrefix(command.args, "reset"); (code == exitOK) != stays {
				t.Errorf("%s, %s: exit %d", command.args, name, code)
			}
			if changed() != before {
				t.Fatalf("%s, %s changed something", command.args, name)
			}
		}
		how := map[string]io.Reader{" -yes": nil}
		if !strings.HasPrefix(command.args, "remove") && !strings.HasPrefix(command.args, "redrive") {
			how[""] = strings.NewReader("y\n")
		}
		for more, input := range how {
			code, errs := run(input, command.args+more)
			if code != exitOK || strings.Contains(errs, "nothing was changed") || strings.Contains(errs, "[y/N]") != (more == "") {
				t.Errorf("%s%s: exit %d, %s", command.args, more, code, errs)
			}
		}
		if changed() == before {
			t.Errorf("%s changed nothing", command.args)
		}
	}
}
