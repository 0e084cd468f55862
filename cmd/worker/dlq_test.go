package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
)

func TestDeadLetterFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "give an action: list, show or redrive"},
		{"drop", "no action \"drop\""},
		{"list -from noon -at 3", "-from \"noon\" is not a time"},
		{"show -at 3/x", "-at \"3/x\" is not a partition and an offset"},
		{"redrive -schema newest", "-schema \"newest\" is not an id"},
		{"redrive -attempts 0", "-attempts at least 1"},
		{"list -dry-run", "go with redrive"},
		{"redrive -to g-scores", "where the group itself writes"},
		{"redrive -to g-dlq-redriven", "where the group itself writes"},
		{"redrive -to no/topic", "-to: "},
	} {
		term, _, errs := console("ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_SCHEMA_REGISTRY_URL=http://localhost:1")
		if code := term.dlq(context.Background(), strings.Fields(c.args)); code != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
	}
}

// TestSchemaNeedsIDs: where schemas have no ids, -schema says what else can be done.
func TestSchemaNeedsIDs(t *testing.T) {
	d := &dlqTool{o: &dlqOptions{schema: "latest"}}
	if _, _, err := d.schema(t.Context()); err == nil || !strings.Contains(err.Error(), "with AWS Glue, redrive without -schema") {
		t.Errorf("without ids: %v", err)
	}
}

// TestDeadLetters: what a worker could not read is listed, shown as far as it goes, sent again with the
// schema that was missing, and scored; what cannot be repaired comes back once and then stays.
func TestDeadLetters(t *testing.T) { realCluster(t, testDeadLetters) }

func testDeadLetters(t *testing.T, c *kafkatest.Cluster) {
	topic, environ := stateFixture(t, c)
	environ = append(environ, "ODRADEK_SCHEMA_REGISTRY_GRACE=0s", "ODRADEK_DETECTOR_CHANGE_WINDOW=4")
	ctx := context.Background()
	good, err := c.Admin().ReadAll(ctx, topic, true)
	must(t, err)
	broken := func(i int, value []byte) kafkatest.Record {
		r := good[i]
		r.Value, r.Time = value, r.Time+1
		return r
	}
	id := good[0].Value[:5]
	_, err = c.ProduceAcked(ctx, []kafkatest.Record{
		broken(0, good[0].Value[5:]),
		broken(1, append([]byte{0, 0, 1, 0, 0}, good[1].Value[5:]...)),
		broken(2, append([]byte{0, 0, 1, 0, 0}, good[2].Value[5:]...)),
		broken(3, good[3].Value[:len(good[3].Value)-3]),
	})
	must(t, err)
	dlq := func(args ...string) (string, string) {
		t.Helper()
		term, out, errs := console(environ...)
		if code := term.dlq(ctx, args); code != exitOK {
			t.Fatalf("dlq %v: exit %d: %s", args, code, errs)
		}
		return out.String(), errs.String()
	}
	list := func() (lines []letterLine) {
		out, _ := dlq("list", "-json")
		for dec := json.NewDecoder(strings.NewReader(out)); ; {
			var l letterLine
			if err := dec.Decode(&l); err == io.EOF {
				return lines
			} else if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, l)
		}
	}
	expect := func(what, text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", what, w, text)
			}
		}
	}
	runUntil(t, c, environ, topic, nil)
	out, errs := dlq("list")
	expect("list", out, "truncated", "magic", topic+"/")
	expect("list", errs, "4 letters in "+topic+"-g-dlq, 1 magic, 1 truncated, 2 unknown_schema; 0 were sent again")
	out, _ = dlq("show", "-reason", "truncated")
	expect("show", out, "reason    truncated", "sensor = ", "not further: byte", "the record ends too early",
		"now       still truncated", "source    "+topic)
	out, _ = dlq("show", "-reason", "unknown_schema", "-limit", "1")
	expect("show", out, "schema id 65536", "now       still unknown_schema")

	_, errs = dlq("redrive", "-dry-run")
	expect("dry run", errs, "would send nothing", "left, would be a dead letter again, 4: ")
	_, errs = dlq("redrive", "-dry-run", "-schema", "latest")
	expect("dry run", errs, "would send 3: 1 magic, 2 unknown_schema", "left, would be a dead letter again, 1: 1 truncated")
	_, errs = dlq("redrive", "-yes", "-reason", "magic", "-schema", "latest")
	expect("redrive", errs, "sent 1: 1 magic")
	_, errs = dlq("redrive", "-yes", "-schema", "latest")
	expect("redrive", errs, "sent 2: 2 unknown_schema", "left, sent there before, 1: 1 magic")
	_, errs = dlq("redrive", "-yes", "-schema", "latest")
	expect("redrive", errs, "sent nothing", "left, sent there before, 3: 1 magic, 2 unknown_schema")
	_, errs = dlq("redrive", "-yes", "-reason", "truncated", "-all")
	expect("redrive", errs, "sent 1: 1 truncated")

	must(t, c.Admin().WaitStable(ctx, topic))
	back, err := c.Admin().ReadAll(ctx, topic, true)
	must(t, err)
	n := 0
	for i := range back {
		if _, ok := back[i].Header("odradek.redrive.from"); ok {
			n++
			if !bytes.HasPrefix(back[i].Value, id) {
				t.Errorf("value %x does not begin with schema id %x", back[i].Value, id)
			}
		}
	}
	if n != 4 || len(back) != len(good)+8 {
		t.Errorf("%d of %d records were sent again", n, len(back))
	}
	runUntil(t, c, environ, topic, nil)
	lines := list()
	if len(lines) != 5 {
		t.Fatalf("%d letters, want the 4 and the one that came back: %+v", len(lines), lines)
	}
	for _, l := range lines {
		if l.Attempts == 1 && l.Reason == "truncated" && l.Sent == nil || l.Attempts == 0 && len(l.Sent) == 1 {
			continue
		}
		t.Errorf("%+v", l)
	}
	_, errs = dlq("redrive", "-yes", "-all", "-attempts", "1")
	expect("redrive", errs, "left, sent too often, 1: 1 truncated")
}
