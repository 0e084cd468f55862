package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/processor/kafkatest"
)

// produce writes records of the usual kind and waits until they are acknowledged.
func (o *ordeal) produce(n int) {
	o.t.Helper()
	o.write(walk(o.t, o.m, o.input, o.rng, 40, n)...)
}

func (o *ordeal) write(recs ...kafkatest.Record) []kafkatest.Record {
	o.t.Helper()
	acked, err := o.c.ProduceAcked(o.ctx, recs)
	must(o.t, err)
	o.sent += len(acked)
	return acked
}

// gauge returns a metric's values by partition.
func (o *ordeal) gauge(w *child, name string) map[string]float64 {
	out := map[string]float64{}
	for k, v := range scrape(o.t, w.http) {
		if rest, ok := strings.CutPrefix(k, "odradek_"+name+"{"); ok {
			out[rest] = v
		}
	}
	return out
}

// waitNoLag waits until a worker's lag is 0 in each of n partitions.
func (o *ordeal) waitNoLag(w *child, n int) {
	o.t.Helper()
	var lag map[string]float64
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		lag = o.gauge(w, "consumer_lag_records")
		left := n
		for _, v := range lag {
			if v == 0 {
				left--
			}
		}
		if left == 0 && len(lag) == n {
			return
		}
	}
	o.t.Errorf("the lag of %s does not come to 0: %v", w.name, lag)
}

// TestRegistryOutage: while the schema registry is away, records of known schemas
// go on; one of an unknown schema holds its partition, everything before it is
// committed, and it is no dead letter. Draining and starting are possible
// meanwhile.
func TestRegistryOutage(t *testing.T) {
	eachOf(t, kafkatest.Kinds, kafkatest.Kinds[1:2], func(t *testing.T, kind string) { // in turn: real clusters share a registry
		c := kafkatest.Open(t, kind)
		o := newOrdeal(t, c, 2)
		registry := c.RegistryServer
		if registry == nil || registry.Fake == nil && registry.Dir == "" {
			t.Skip("the registry belongs to another process")
		}
		w := o.start("first")
		w.waitReady(t)
		o.produce(500)
		o.waitDone()
		// unknown makes a record of a schema that no worker has seen.
		unknown := func(i int) kafkatest.Record {
			t.Helper()
			text := strings.Replace(sensorSchema, `"name":"unit"`, fmt.Sprintf(`"name":"unit%d"`, i), 1)
			codec, err := goavro.NewCodec(text)
			must(t, err)
			b := binary.BigEndian.AppendUint32([]byte{0}, register(t, registry.URL, fmt.Sprintf("%s-%d-value", o.input, i), text))
			b, err = codec.BinaryFromNative(b, map[string]any{"sensor": "new", "site": map[string]any{"hall": 3, "line": nil},
				"time": time.Date(2026, 3, 1, 0, 0, o.m.n, 0, time.UTC), "value": goavro.Union("double", 1.5), fmt.Sprintf("unit%d", i): nil})
			must(t, err)
			return kafkatest.Record{Topic: o.input, Partition: 0, Key: []byte("new"), Value: b}
		}
		// hold stops the registry and waits until rec holds partition 0, and only that.
		hold := func(rec kafkatest.Record) {
			t.Helper()
			registry.Stop()
			o.produce(300)
			o.waitDone()
			at := o.write(rec)[0].Offset
			o.produce(300)
			ends, err := c.Admin().Ends(o.ctx, o.input, kafkatest.HighWatermark)
			must(t, err)
			ctx, cancel := context.WithTimeout(o.ctx, patience)
			defer cancel()
			must(t, c.Admin().WaitCommittedTo(ctx, o.group, o.input, map[int32]int64{0: at, 1: ends[1]}))
			o.pause(time.Second, 2*time.Second)
			offs, err := c.Admin().Offsets(o.ctx, o.group, true)
			must(t, err)
			if got := offs[kafkatest.TP{Topic: o.input}].Offset; got != at {
				t.Errorf("partition 0 is committed to %d, the record of an unknown schema is at %d", got, at)
			}
			if up := scrape(t, w.http)["odradek_schema_registry_up"]; up != 0 {
				t.Errorf("odradek_schema_registry_up is %v", up)
			}
		}
		hold(unknown(1))
		must(t, registry.Start(o.ctx))
		o.waitDone()
		hold(unknown(2))
		if code := w.drain(t); code != exitOK {
			t.Errorf("drain while held ended with %d", code)
		}
		w = o.start("second")
		w.waitLogged(t, "ODRADEK_SCHEMA_REGISTRY_URL")
		must(t, registry.Start(o.ctx))
		w.waitReady(t)
		o.produce(300)
		o.end("registry outage")
	})
}

// TestRestoreHeld: a restore that waits for the schema registry does not keep the
// worker from handing its partitions over and leaving.
func TestRestoreHeld(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	o := newOrdeal(t, c, 1, "SESSION_TIMEOUT=2s", "TRANSACTION_TIMEOUT=2s", "REPLAY_LIMIT=10m")
	first := o.start("first")
	first.waitReady(t)
	second := o.start("second") // is given no partition and finds no record at its start, and so learns of no schema
	second.waitReady(t)
	o.waitMembers(2)
	o.produce(1000)
	o.waitDone()
	c.RegistryServer.Stop()
	first.kill()
	second.waitLogged(t, "partition held, the schema registry")
	began := time.Now()
	if code := second.drain(t); code != exitOK {
		t.Errorf("drained with %d", code)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the drain took %v", d)
	}
	must(t, c.RegistryServer.Start(o.ctx))
	o.start("third").waitReady(t)
	o.produce(1000)
	o.end("restore held")
}

// TestAbortedInput: the input has aborted transactions, at its end too. They are
// never scored, also not in a replay, an open one is waited for, and the lag comes
// to 0 although the last offsets belong to aborted records and markers.
func TestAbortedInput(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		const partitions = 3
		o := newOrdeal(t, c, partitions)
		p, err := kafkatest.NewTxnProducer(c.Brokers, o.input+"-input")
		must(t, err)
		defer p.Close()
		plain, aborted := []kafkatest.Record{}, 0
		transaction := func(commit bool) {
			t.Helper()
			recs := walk(t, o.m, o.input, o.rng, 40, 5+o.rng.IntN(30))
			if !commit {
				aborted += len(recs)
			}
			must(t, p.Write(o.ctx, recs...))
			if o.rng.IntN(3) == 0 { // others write in between
				plain = append(plain, o.write(walk(t, o.m, o.input, o.rng, 40, 10)...)...)
			}
			must(t, p.End(o.ctx, commit))
		}
		w := o.start("first", "INSTANCE_ID=one")
		w.waitReady(t)
		for i := range 60 {
			transaction(o.rng.IntN(3) > 0)
			if i == 30 {
				w.kill()
				w = o.start("second", "INSTANCE_ID=one")
			}
		}
		transaction(true)
		for range 3 * partitions {
			transaction(false)
		}
		w.waitReady(t)
		o.waitDone()
		o.waitNoLag(w, partitions)
		w.kill()
		w = o.start("third", "INSTANCE_ID=one") // restores up to offsets that are no records
		w.waitReady(t)
		o.waitNoLag(w, partitions)
		must(t, p.Write(o.ctx, walk(t, o.m, o.input, o.rng, 40, 100)...))
		at := o.committed()
		o.pause(500*time.Millisecond, time.Second)
		if now := o.committed(); now != at {
			t.Errorf("the worker has committed %d offsets of an open transaction", now-at)
		}
		o.waitNoLag(w, partitions)
		must(t, p.End(o.ctx, true))
		o.end("aborted input")
		if aborted == 0 || len(p.Ledger().Aborted()) < aborted {
			t.Fatalf("%d records aborted, %d of them known", aborted, len(p.Ledger().Aborted()))
		}

		// Every committed record that has a value has its score, and no aborted one.
		want := map[scoreID]bool{}
		for _, r := range append(p.Ledger().Acked(), plain...) {
			native, _, err := o.m.codec.NativeFromBinary(r.Value[5:])
			must(t, err)
			if native.(map[string]any)["value"] != nil {
				want[scoreID{r.Topic, r.Partition, r.Offset, "level", "", 0, 0}] = true
			}
		}
		got, _ := o.scores()
		for id := range got {
			if id.detector == "level" && !want[id] {
				t.Errorf("a score for %v, which was aborted or has no value", id)
			}
			delete(want, id)
		}
		if len(want) > 0 {
			t.Errorf("%d committed records have no score", len(want))
		}
	})
}

// TestPartitionsGrow: the input gets more partitions, so keys may have moved. A
// worker that runs quarantines the new ones, and one that starts ends with an explanation, and the command
// that it names mends it. Where records are keyed anew anyhow, it goes on.
func TestPartitionsGrow(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 2, "SESSION_TIMEOUT=2s", "TRANSACTION_TIMEOUT=2s")
		o.produce(500)
		running := o.start("running")
		running.waitReady(t)
		rekeyed := newFleet(t, c, o.input, o.input+"-rekeyed", "REKEY=true", "LATENESS=1m")
		rw := rekeyed.start("rekeyed")
		rw.waitReady(t)
		rekeyed.waitDone()
		o.waitDone()
		must(t, c.Admin().AddPartitions(o.ctx, o.input, 4))
		o.produce(500)
		refused := func(w *child) {
			t.Helper()
			if code := w.exit(t); code != exitRefused || !w.logged("worker state reset") {
				b, _ := os.ReadFile(w.log)
				t.Errorf("%s ended with %d, want %d and the command that decides:\n%s", w.name, code, exitRefused, b)
			}
		}
		// The group's leader looks at the partition counts twice a minute, and whenever
		// it joins.
		o.remove("")
		running.waitLogged(t, "partition quarantined")
		if code := running.drain(t); code != exitOK || !running.logged("worker state reset") {
			t.Errorf("the worker that ran drained with %d", code)
		}
		refused(o.start("starting"))

		term, _, errs := console(o.settings()...)
		if code := term.state(o.ctx, []string{"reset", "-yes", "-to", "earliest"}); code != exitOK {
			t.Fatalf("state reset ended with %d: %s", code, errs)
		}
		w := o.start("after")
		w.waitReady(t)
		o.waitDone()
		if code := w.drain(t); code != exitOK {
			t.Errorf("the worker after the reset drained with %d", code)
		}

		rekeyed.remove("")
		rekeyed.waitDone()
		if code := rw.drain(t); code != exitOK {
			t.Errorf("the worker that keys anew drained with %d", code)
		}
	})
}

// TestOffsetsLostWhileRunning: retention deletes what a running worker was about
// to read. It goes on where its setting says, with empty state, or ends with an
// explanation.
func TestOffsetsLostWhileRunning(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 1, "SESSION_TIMEOUT=20s", "DETECTORS=level")
		w := o.start("goes-on", "INSTANCE_ID=one", "OFFSET_LOST=earliest")
		w.waitReady(t)
		lose := func() (start int64) {
			t.Helper()
			o.produce(500)
			o.waitDone()
			must(t, w.cmd.Process.Signal(syscall.SIGSTOP))
			time.Sleep(300 * time.Millisecond) // no fetch waits at the broker any more
			o.produce(1000)
			ends, err := c.Admin().Ends(o.ctx, o.input, kafkatest.HighWatermark)
			must(t, err)
			start = ends[0] - 600
			must(t, c.Admin().DeleteRecords(o.ctx, o.input, 0, start))
			o.resume(w)
			return start
		}
		first := lose()
		o.waitDone()
		if !w.logged("offset lost") || scrape(t, w.http)[fmt.Sprintf(`odradek_lost_offsets_total{partition="0",topic=%q}`, o.input)] != 400 {
			t.Error("the gap of 400 offsets is not told")
		}
		o.produce(500)
		o.waitDone()
		w.kill()
		w = o.start("again", "INSTANCE_ID=one") // what was emptied is a state like any other
		w.waitReady(t)
		second := lose()
		if code := w.exit(t); code != exitRefused || !w.logged("ODRADEK_OFFSET_LOST") {
			t.Errorf("exit code %d, want %d and a word of ODRADEK_OFFSET_LOST", code, exitRefused)
		}
		got, doubled := o.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled", len(doubled))
		}
		lost := 0
		for off := int64(0); off < second-400; off++ {
			_, ok := got[scoreID{o.input, 0, off, "level", "", 0, 0}]
			switch {
			case off >= first-400 && off < first:
				if ok {
					t.Errorf("offset %d was deleted and has a score", off)
				}
			case !ok:
				lost++
			}
		}
		// One in a hundred records has no value.
		if lost > 100 {
			t.Errorf("%d records that were there have no score", lost)
		}
	})
}

// TestTopicMadeAnew: the input topic was deleted and made again. The brokers forget
// the group's offsets with it, and the state is one of records that are no more.
// Where the offsets are there still, they are past the log's end, as they are when
// a partition loses its last records.
func TestTopicMadeAnew(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 1, "SESSION_TIMEOUT=2s", "TRANSACTION_TIMEOUT=2s")
		tp := kafkatest.TP{Topic: o.input}
		refused := func(name, setting string) {
			t.Helper()
			w := o.start(name)
			if code := w.exit(t); code != exitRefused || !w.logged(setting) {
				b, _ := os.ReadFile(w.log)
				t.Errorf("%s ended with %d, want %d and %s:\n%s", name, code, exitRefused, setting, b)
			}
			o.waitMembers(0)
		}
		o.produce(500)
		w := o.start("before")
		w.waitReady(t)
		o.waitDone()
		if code := w.drain(t); code != exitOK {
			t.Errorf("drained with %d", code)
		}
		before, err := c.Admin().Offsets(o.ctx, o.group, true)
		must(t, err)
		must(t, c.Admin().DeleteTopic(o.ctx, o.input))
		for c.Admin().CreateTopic(o.ctx, o.input, 1, 0, nil) != nil {
			time.Sleep(100 * time.Millisecond) // it takes a while to be gone
			must(t, o.ctx.Err())
		}
		o.produce(100)
		refused("no-offset", "ODRADEK_STATE_LOST")
		must(t, c.Admin().SetOffsets(o.ctx, o.group, map[kafkatest.TP]kafkatest.Committed{tp: before[tp]}))
		refused("past-the-end", "ODRADEK_OFFSET_LOST")
		w = o.start("after", "OFFSET_LOST=earliest")
		w.waitReady(t)
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			offs, err := c.Admin().Offsets(o.ctx, o.group, true)
			must(t, err)
			if offs[tp].Offset == 100 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("the committed offset is %d, the log has 100 records", offs[tp].Offset)
			}
		}
		if code := w.drain(t); code != exitOK {
			t.Errorf("drained with %d", code)
		}
	})
}

// TestLowLimits: topics take little in one message (max.message.bytes). Scores and
// state are split up; a dead letter and a late record that are too large, by
// their value, key or headers, arrive truncated and say so; nothing stops. Then a limit
// is lowered further while the worker runs.
func TestLowLimits(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		o := newOrdeal(t, c, 2)
		for name, config := range map[string]map[string]string{
			"scores":                     {"max.message.bytes": "4096"},
			"dlq":                        {"max.message.bytes": "8192"},
			"late":                       {"max.message.bytes": "16384"},
			"-" + o.input + "-changelog": {"max.message.bytes": "2048", "cleanup.policy": "compact"},
		} {
			n := 2
			if name == "dlq" || name == "late" {
				n = 1
			}
			must(t, c.Admin().CreateTopic(o.ctx, o.group+"-"+name, n, 0, config))
		}
		const huge = 900_000
		filler := func(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }
		many := []kafkatest.Header{}
		for i := range 60 {
			many = append(many, kafkatest.Header{Key: fmt.Sprintf("h%d", i), Value: filler('h', huge/60)})
		}
		bads := map[string]kafkatest.Record{
			"value":               {Value: filler('v', huge)},
			"key":                 {Key: filler('k', huge), Value: []byte("x")},
			"headers":             {Value: []byte("xy"), Headers: many},
			"one header":          {Value: []byte("xy"), Headers: []kafkatest.Header{{Key: "big", Value: filler('h', huge)}}},
			"tombstone, headers":  {Headers: many},
			"tombstone, header":   {Headers: []kafkatest.Header{{Key: "big", Value: filler('h', huge)}}},
			"tombstone, key":      {Key: filler('t', huge)},
			"empty value, header": {Value: []byte{}, Headers: []kafkatest.Header{{Key: "big", Value: filler('h', huge)}}},
			"header name":         {Value: []byte("z"), Headers: []kafkatest.Header{{Key: string(filler('n', 20_000))}}},
		}
		w := o.start("first")
		w.waitReady(t)
		o.produce(3000)
		at := map[string]string{} // partition/offset -> name
		sent := map[string]kafkatest.Record{}
		for name, r := range bads {
			r.Topic, r.Partition = o.input, int32(o.rng.IntN(2))
			r = o.write(r)[0]
			at[fmt.Sprintf("%d/%d", r.Partition, r.Offset)] = name
			sent[name] = r
			o.produce(20)
		}
		// Late, and large by a field that is not read.
		body, err := o.m.codec.BinaryFromNative(binary.BigEndian.AppendUint32([]byte{0}, o.m.id), map[string]any{
			"sensor": "sensor-001", "site": map[string]any{"hall": 3, "line": nil}, "time": time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
			"value": goavro.Union("double", 1.0), "unit": goavro.Union("string", string(filler('u', huge)))})
		must(t, err)
		o.write(kafkatest.Record{Topic: o.input, Partition: -1, Key: []byte("sensor-001"), Value: body})
		o.produce(500)
		o.waitDone()
		must(t, c.Admin().SetTopicConfig(o.ctx, o.group+"-scores", map[string]string{"max.message.bytes": "1200"}))
		o.produce(3000)
		o.waitDone()

		dead := o.deadLetters()
		for i := range dead {
			head := func(name string) string { v, _ := dead[i].Header(name); return string(v) }
			id := head("__streams.errors.partition") + "/" + head("__streams.errors.offset")
			name, ok := at[id]
			if !ok {
				t.Errorf("a dead letter for %s, which was not bad or has one already", id)
				continue
			}
			delete(at, id)
			src := sent[name]
			if !bytes.HasPrefix(src.Value, dead[i].Value) || !bytes.HasPrefix(src.Key, dead[i].Key) || (src.Value == nil) != (dead[i].Value == nil) {
				t.Errorf("%s: key and value of the dead letter are not the record's beginning", name)
			}
			if len(dead[i].Key) < len(src.Key) && head("odradek.truncated.key") != fmt.Sprint(len(src.Key)) {
				t.Errorf("%s: odradek.truncated.key is %q, the key has %d bytes", name, head("odradek.truncated.key"), len(src.Key))
			}
			if head("odradek.truncated.size") != fmt.Sprint(len(src.Value)) {
				t.Errorf("%s: odradek.truncated.size is %q, the value has %d bytes", name, head("odradek.truncated.size"), len(src.Value))
			}
			if head("__streams.errors.topic") != o.input || head("odradek.error.class") == "" || head("__streams.errors.message") == "" {
				t.Errorf("%s: the headers do not say what happened: %q", name, head("__streams.errors.message"))
			}
		}
		for id, name := range at {
			t.Errorf("%s at %s has no dead letter", name, id)
		}
		late, err := c.Admin().ReadAll(o.ctx, o.group+"-late", true)
		must(t, err)
		if len(late) != 1 || !bytes.HasPrefix(body, late[0].Value) || len(late[0].Value) < 4000 {
			t.Errorf("%d late records", len(late))
		}
		o.drainAll("low limits")
		got, doubled := o.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled", len(doubled))
		}
		compare(t, "low limits", undisturbed(t, c, o.input), got)
	})
}
