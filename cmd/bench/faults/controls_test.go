package faults

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// broken is a worker with a defect that the check has to notice.
type broken struct {
	name  string
	edits edits // by the path in the module
	long  bool  // left to a long run
	fault string
	round time.Duration
	set   []string
	want  []string // in the examples; beside them nothing may be said that is not expected
}

var brokenWorkers = []broken{
	{
		// Every 499th score is dropped, doubled or off by a bit, no anomaly is closed, and inputs of aborted transactions are read.
		// Aborted transactions of a changelog are left out as they should be: a worker that reads them stops at the first transaction that
		// a slow broker aborts.
		name: "outputs", fault: "aborted", round: 4 * time.Second,
		edits: edits{
			"processor/cycle/writer.go": {
				"		name := row.Key.Name()\n		n, err := w.writeScore(", `		name := row.Key.Name()
		switch row.Offset % 499 {
		case 1:
			continue
		case 2:
			if _, err := w.writeScore(to.batches(row.Key, name), ms, row, name); err != nil {
				return bytes, err
			}
		case 3:
			row.Score *= 1.0000001
		}
		n, err := w.writeScore(`,
			},
			"processor/cycle/anomalies.go": {
				"if row.Change.Anomaly.Shadow != shadow {",
				`if row.Change.Anomaly.Shadow != shadow || output.AnomalyKinds[row.Change.Kind] == "close" {`,
			},
			"processor/kafka/record/records.go": {
				"if n == 0 || attrs&attrTransactional != 0 && slices.Contains(it.aborted, producer) {",
				`if n == 0 || attrs&attrTransactional != 0 && slices.Contains(it.aborted, producer) && it.tp.Topic[:3] != "in-" {`,
			},
		},
		want: []string{"lost: score of", "doubled: score of", "differing: score of", "lost: anomaly",
			"unknown to the undisturbed worker: score of"},
	},
	{
		name: "commit before produce", fault: "kill", round: 20 * time.Second, long: true,
		edits: edits{"processor/exactlyonce.go": {
			"return e.session.producer.Send(ctx, outs, gen, e.session.cfg.Group, offs)",
			`if err := e.session.cfg.Client.Offsets.CommitOffsets(ctx, gen, e.session.cfg.Group, offs); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
		return e.session.producer.Send(ctx, outs, gen, e.session.cfg.Group, offs)`,
			`	"fmt"
`, `	"fmt"
	"time"
`,
		}},
		want: []string{"lost: score of"},
	},
	{
		// A worker that is frozen with a transaction open for longer than its session, but not than its transaction, commits
		// afterwards what another has done meanwhile.
		name: "offsets without require-stable", fault: "freeze", round: time.Minute, long: true,
		set: []string{"ODRADEK_TRANSACTION_TIMEOUT=60s"},
		edits: edits{
			"cmd/internal/config/check.go": {"if s.TransactionTimeout > ch.c.Group.SessionTimeout {", "if false {"},
			"processor/kafka/offsets.go":   {"b = append(b, 1, 0) // require_stable", "b = append(b, 0, 0) // require_stable"},
			"processor/exactlyonce.go": {"	e.session.cfg.Hooks.step(BeforeEnd, c)\n", "	time.Sleep(200 * time.Millisecond)\n", `	"fmt"
`, `	"fmt"
	"time"
`},
		},
		want: []string{"doubled: score of", "the log: partition"},
	},
}

// overlay writes the file that makes go build what is broken in place of what is there.
func (b *broken) overlay(t *testing.T, root string) string {
	t.Helper()
	files := edits{}
	for name, texts := range b.edits {
		file, err := filepath.Abs(filepath.Join(root, name))
		must(t, err)
		files[file] = texts
	}
	name, err := overlay(t.TempDir(), files)
	if err != nil {
		t.Fatalf("%s: %v", b.name, err)
	}
	return name
}

// TestBrokenWorkers builds workers with a defect each, and wants the check to notice it.
func TestBrokenWorkers(t *testing.T) {
	const root = "../../.."
	overlays := map[string]string{}
	for _, b := range brokenWorkers { // also where nothing is run: the edits have to fit the code
		overlays[b.name] = b.overlay(t, root)
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	kafkatest.SkipAsked(t, "kafka")
	for _, b := range brokenWorkers {
		t.Run(b.name, func(t *testing.T) {
			if b.long {
				kafkatest.LongOnly(t)
			}
			var log bytes.Buffer
			defer func() {
				if t.Failed() {
					t.Log(log.String())
				}
			}()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			o := Options{Version: kafkatest.Versions[0], Guarantee: "exactly_once", Only: []string{b.fault}, Round: b.round, Rate: 1000,
				Worker: kafkatest.GoProgram(t, root, "broken-"+strings.ReplaceAll(b.name, " ", "-"), "build", "-overlay="+overlays[b.name],
					"./cmd/worker"),
				Other: kafkatest.GoProgram(t, root, "worker", "build", "./cmd/worker"),
				Seed:  uint64(time.Now().UnixNano()), Dir: t.TempDir(), Settings: b.set, Log: &log}
			t.Logf("seed %d", o.Seed)
			var got Result
			err := Run(ctx, o, func(r Result) error { got = r; return nil })
			if missing := (*kafkatest.MissingError)(nil); errors.As(err, &missing) {
				kafkatest.Missing(t, "kafka", err)
			}
			must(t, err)
			for _, want := range b.want {
				if !strings.Contains(got.Examples, want) {
					t.Errorf("no %q in %+v", want, got)
				}
			}
			if got.Whole() {
				t.Errorf("nothing was noticed: %+v", got)
			}
		})
	}
}
