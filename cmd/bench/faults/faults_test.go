package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scoreText(offset int64, score float64) []byte {
	return fmt.Appendf(nil, `{"detector":%q,"score":%v,"source":{"topic":"in","partition":0,"offset":%d}}`, level, score, offset)
}

func anomalyText(id, n int64, summary string) []byte {
	return fmt.Appendf(nil, `{"id":"a%d","revision":%d,"summary":%q}`, id, n, summary)
}

func readingText(v float64) []byte { return fmt.Appendf(nil, `{"sensor":"s","at":1,"value":%v}`, v) }

// TestControls breaks outputs, one record at a time, and wants it counted.
func TestControls(t *testing.T) {
	whole := func() *outputs {
		o := newOutputs()
		for i := range 40 {
			r := kafkatest.Record{Key: []byte("s"), Value: scoreText(int64(i), 1.5)}
			must(t, o.score(&r))
			r.Value = anomalyText(int64(i/4), int64(i%4+1), "x")
			must(t, o.anomaly(&r))
		}
		return o
	}
	counted := func(change func(*outputs)) Result {
		var res Result
		got := whole()
		change(got)
		got.compare(whole(), &res)
		return res
	}
	record := func(value []byte) *kafkatest.Record { return &kafkatest.Record{Key: []byte("s"), Value: value} }
	for name, x := range map[string]struct {
		change                   func(*outputs)
		lost, doubled, differing int
	}{
		"nothing":            {func(*outputs) {}, 0, 0, 0},
		"a score is dropped": {func(o *outputs) { delete(o.scores, scoreID{at{0, 7}, level}) }, 1, 0, 0},
		"a close is lost":    {func(o *outputs) { delete(o.anomalies, revision{"a3", 4}) }, 1, 0, 0},
		"a score is doubled": {func(o *outputs) { must(t, o.score(record(scoreText(7, 1.5)))) }, 0, 1, 0},
		"an open is doubled": {func(o *outputs) { must(t, o.anomaly(record(anomalyText(3, 1, "x")))) }, 0, 1, 0},
		"a score is off by a bit": {func(o *outputs) {
			delete(o.scores, scoreID{at{0, 7}, level})
			must(t, o.score(record(scoreText(7, math.Nextafter(1.5, 2)))))
		}, 0, 0, 1},
		"a score is doubled and another": {func(o *outputs) {
			first := o.scores[scoreID{at{0, 7}, level}]
			must(t, o.score(record(scoreText(7, 2.5))))
			o.scores[scoreID{at{0, 7}, level}] = first
		}, 0, 1, 1},
		"a score of no record":  {func(o *outputs) { must(t, o.score(record(scoreText(99, 1.5)))) }, 0, 0, 1},
		"an anomaly is another": {func(o *outputs) { o.anomalies[revision{"a3", 2}]++ }, 0, 0, 1},
	} {
		res := counted(x.change)
		if res.Lost != x.lost || res.Doubled != x.doubled || res.Differing != x.differing {
			t.Errorf("%s: lost %d, doubled %d, differing %d, want %d, %d, %d", name, res.Lost, res.Doubled, res.Differing,
				x.lost, x.doubled, x.differing)
		}
		if res.Guarantee = "exactly_once"; res.Whole() != (name == "nothing") {
			t.Errorf("%s: whole is %t", name, res.Whole())
		}
	}
}

// TestPlain: the plain program's scores equal a window's by hand, and a score that is off is counted.
func TestPlain(t *testing.T) {
	past := []float64{1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 2}
	sd := math.Sqrt(14. / 15)
	if got := zscore(past, 5); math.Abs(got-3/sd) > 1e-12 {
		t.Errorf("score %v, want %v", got, 3/sd)
	}
	if got := zscore(past[1:], 5); !math.IsNaN(got) {
		t.Errorf("score %v of a short window", got)
	}
	var input []kafkatest.Record
	o := newOutputs()
	for i, v := range append(slices.Clone(past), 5) {
		input = append(input, kafkatest.Record{Key: []byte("s"), Offset: int64(i), Value: readingText(v)})
		o.levels[at{0, int64(i)}] = math.NaN()
	}
	o.levels[at{0, 15}] = 3 / sd
	var res Result
	must(t, o.plain(input, false, &res))
	o.levels[at{0, 15}] += 1e-4
	must(t, o.plain(input, false, &res))
	delete(o.levels, at{0, 4})
	must(t, o.plain(input, false, &res))
	if res.Differing != 3 { // none, one, two
		t.Errorf("%d differ, want 3: %v", res.Differing, o.examples)
	}
}

// TestControlsOfRuns: scores are compared one by one, however their runs are cut.
func TestControlsOfRuns(t *testing.T) {
	enc := output.NewScoreEncoder(output.JSON, "in", 2, []string{level}).Runs()
	run := []output.RunScore{{Offset: 7, Score: 1.5}, {Offset: 9, Score: 2.5}, {Offset: 12, Score: float32(math.NaN()), Remaining: 3}}
	read := func(parts ...[]output.RunScore) *outputs {
		o := newOutputs()
		for _, part := range parts {
			must(t, o.score(&kafkatest.Record{Key: []byte("s"), Value: enc.AppendRun(nil, []byte("s"), 0, part)}))
		}
		return o
	}
	want, changed := read(run), slices.Clone(run)
	changed[1].Remaining = 1
	for _, c := range []struct {
		got                      *outputs
		lost, doubled, differing int
	}{
		{read(run[:1], run[1:]), 0, 0, 0}, {read(run[:2]), 1, 0, 0}, {read(run, run[2:]), 0, 1, 0}, {read(changed), 0, 0, 1},
	} {
		var res Result
		if c.got.compare(want, &res); res.Lost != c.lost || res.Doubled != c.doubled || res.Differing != c.differing {
			t.Errorf("%+v, want %+v", res, c)
		}
	}
	if want.levels[at{2, 9}] != 2.5 || !math.IsNaN(want.levels[at{2, 12}]) {
		t.Error(want.levels)
	}
}

// TestFaults runs a round of kills on real Kafka, and then breaks what was published.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	kafkatest.SkipAsked(t, "kafka")
	var log bytes.Buffer
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	o := Options{Version: kafkatest.Versions[0], Worker: kafkatest.GoProgram(t, "../../..", "worker", "build", "./cmd/worker"),
		Guarantee: "exactly_once", Only: []string{"kill"}, Round: 10 * time.Second, Seed: uint64(time.Now().UnixNano()), Rate: 1000,
		Dir: t.TempDir(), Log: &log, Settings: []string{"ODRADEK_GROUP_PROTOCOL=consumer"}} // classic groups: TestKilledAtRandom
	t.Logf("seed %d", o.Seed)
	var results []Result
	var broken []Result
	o.checked = func(r *round, input string) error {
		for _, topic := range []string{"-scores", "-anomalies"} {
			published, err := r.c.Admin().ReadAll(ctx, r.group()+topic, true)
			if err != nil {
				return err
			}
			last := published[len(published)-1]
			doubled := kafkatest.Record{Topic: last.Topic, Partition: last.Partition, Key: last.Key, Value: last.Value}
			if _, err := r.c.ProduceAcked(ctx, []kafkatest.Record{doubled}); err != nil {
				return err
			}
			var res Result
			if err := r.check(input, map[at]uint64{{0, 1 << 40}: 1}, &res); err != nil {
				return err
			}
			broken = append(broken, res)
		}
		return nil
	}
	err := Run(ctx, o, func(r Result) error { results = append(results, r); return nil })
	if missing := (*kafkatest.MissingError)(nil); errors.As(err, &missing) {
		kafkatest.Missing(t, "kafka", err)
	}
	must(t, err)
	if len(results) != 1 || !results[0].Whole() || results[0].Protocol != consumerProtocol || results[0].Kills == 0 ||
		results[0].Records < 5000 || results[0].Anomalies < 20 || results[0].Transactions < 5 {
		t.Errorf("%+v", results)
	}
	for i, res := range broken {
		// The log says that a doubled one is of no transaction, for each topic with one.
		if res.Doubled != i+1 || res.Lost != 1 || res.Differing != i+1 || !strings.Contains(res.Examples, "1 records are of none") {
			t.Errorf("with %d doubled outputs and a lost record of the input: %+v", i+1, res)
		}
	}
	if len(broken) != 2 {
		t.Errorf("%d controls ran", len(broken))
	}
	file := filepath.Join(o.Dir, "results.jsonl")
	must(t, os.WriteFile(file, []byte(`{"fault":"kill","kafka":"4.4.0","guarantee":"exactly_once","faults":2,"kills":2,"records":10}`+"\n"), 0o600))
	read, err := Read(file)
	must(t, err)
	var table strings.Builder
	Table(&table, append(read, read...))
	if !strings.Contains(table.String(), "| kill | 2 | 4 | 4 | 20 | 0 | 0 | 0 | 0.0 |") {
		t.Error(table.String())
	}
}

// known are the rounds, by seed, in which outputs were lost, doubled or different: the page says what is known of each.
var known = map[uint64][3]int{2210733285: {0, 0, 8}, 2856627405: {0, 3559, 1775}, 2676874415: {0, 24, 8}}

// TestTable: docs/reliability.md has the table of the recorded results, of which none is lost, doubled or differs but in those rounds.
func TestTable(t *testing.T) {
	results, err := Read("../../../docs/reliability.jsonl")
	must(t, err)
	for _, r := range results {
		if !r.Whole() && known[r.Seed] != [3]int{r.Lost, r.Doubled, r.Differing} {
			t.Errorf("%+v", r)
		}
	}
	var table strings.Builder
	Table(&table, results)
	page, err := os.ReadFile("../../../docs/reliability.md")
	must(t, err)
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/reliability.md lacks the table of `bin/bench faults -table docs/reliability.jsonl`:\n%s", &table)
	}
}

// TestOtherBits: batches of a round's workers that the CPU has scored for a GPU are counted, those of other rounds are not.
func TestOtherBits(t *testing.T) {
	r := &round{Options: Options{Dir: t.TempDir()}, name: "kill-1"}
	for name, text := range map[string]string{
		"kill-1-w0-1-1.log": "a batch is scored on the CPU, with other bits: x\nstarted\na batch is scored on the CPU, with other bits: y\n",
		"kill-1-w1-2-2.log": "started\n", "kill-10-w0-1-1.log": "with other bits\n",
	} {
		must(t, os.WriteFile(filepath.Join(r.Dir, name), []byte(text), 0o600))
	}
	var res Result
	if must(t, r.otherBits(&res)); res.OtherBits != 2 {
		t.Errorf("%d batches, want 2", res.OtherBits)
	}
}

// TestNames: each fault has a name of its own and says what happens; an unknown one is refused.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range Names() {
		seen[name] = true
		if What(name) == "" {
			t.Errorf("%s says nothing", name)
		}
	}
	if len(seen) != len(kinds) {
		t.Errorf("%d names of %d faults: %v", len(seen), len(kinds), slices.Sorted(maps.Keys(seen)))
	}
	for _, x := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Only = []string{"flood"} }, `no fault "flood"`},
		{func(o *Options) { o.Guarantee = "twice" }, `no guarantee "twice"`},
		{func(o *Options) { o.Rate = 0 }, "a rate"},
		{func(o *Options) { o.Round = -time.Second }, "a time of a round"},
		{func(o *Options) { o.Python = "/no/python" }, "/no/python"},
		{func(o *Options) { o.Only = []string{upgrade} }, "-other"},
	} {
		o := Options{Version: "0.0.0", Guarantee: atLeastOnce, Rate: 1, Round: time.Second}
		x.change(&o)
		if err := Run(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
}
