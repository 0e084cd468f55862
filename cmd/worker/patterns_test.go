package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestTopicPatterns: topics that match a pattern are read from the start, or from when they are created while the workers run,
// by the mapping of the pattern that they match; the group's own topics, whose names match it, too, are not. A topic that is
// deleted ends no worker.
func TestTopicPatterns(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		ctx, rng, prefix := context.Background(), seedtest.New(t), kafkatest.Unique("plant")
		plain, second, wide := prefix+"-a", prefix+"-b", prefix+"-wide-1"
		must(t, c.Admin().CreateTopic(ctx, plain, 2, 0, nil))
		settings := append([]string{"TOPICS=" + prefix + "-*", "MAPPING_W_TOPICS=" + prefix + "-wide-?"}, ofBoth...)
		settings = append(settings, jsonOfTwo...)
		for _, s := range append(slices.Clone(wideOfTwo), "TTL=0s", "MISSING=skip") {
			settings = append(settings, "MAPPING_W_"+s)
		}
		f := newFleet(t, c, plain, prefix+"-g", settings...) // the outputs' names match, too
		f.several = true
		avro, source, n := newWideAvro(t, c.RegistryURL(t), wide), newWideInput(rng), 0
		produce := func(topics ...string) {
			t.Helper()
			var recs []kafkatest.Record
			for range 1500 {
				n++
				for _, topic := range topics {
					if topic == wide {
						machine, at, values := source.next()
						recs = append(recs, avro.record(t, wide, machine, at, values))
					} else {
						recs = append(recs, jsonRecord(topic, rng, n))
					}
				}
			}
			_, err := c.ProduceAcked(ctx, recs)
			must(t, err)
		}
		const soon = "TEST_LOOK=300ms"
		produce(plain)
		a := f.start("a", soon)
		a.waitReady(t)
		b := f.start("b", soon)
		b.waitReady(t)
		f.waitDone()
		// Two more, one of another shape.
		must(t, c.Admin().CreateTopic(ctx, second, 2, 0, nil))
		must(t, c.Admin().CreateTopic(ctx, wide, 2, 0, nil))
		f.also = []string{second, wide}
		produce(plain, second, wide)
		f.waitDone()
		code, out := runCheck(t, f.settings())
		out = strings.Join(strings.Fields(out), " ")
		for _, want := range []string{"ok topic " + wide + " 2 partitions", "read by mapping W, matches " + prefix + "-*",
			"ok stored state 6 partitions"} {
			if !strings.Contains(out, want) {
				t.Errorf("check: exit %d, no %q in\n%s", code, want, out)
			}
		}
		if n := strings.Count(out, ", matches "); n != 3 {
			t.Errorf("%d topics match, want 3: %s", n, out)
		}
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
		}
		for topic, own := range map[string][]string{wide: wideOfTwo, plain: jsonOfTwo, second: jsonOfTwo} {
			some := maps.Clone(got)
			maps.DeleteFunc(some, func(id scoreID, _ scored) bool { return id.topic != topic })
			still, offsets := undisturbedFleet(t, c, topic, slices.Concat(own, ofBoth, []string{"VALUE_FIELDS=" + valueFields(own)})...)
			still.several = true
			compare(t, topic, original(t, still, offsets), some)
		}
		// One is deleted while records of it come in; the others go on.
		produce(second, wide)
		must(t, c.Admin().DeleteTopic(ctx, second))
		f.also = []string{wide}
		produce(plain, wide)
		f.waitDone()
		gone := "gone=[" + second + "]"
		for end := time.Now().Add(patience); !a.logged(gone) && !b.logged(gone); {
			if time.Sleep(50 * time.Millisecond); time.Now().After(end) {
				t.Fatal("no worker has noticed that a topic was deleted")
			}
		}
		produce(plain, wide)
		f.waitDone()
		for _, w := range []*child{a, b} {
			w.waitReady(t)
			if code := w.drain(t); code != exitOK {
				t.Errorf("%s drained with %d", w.name, code)
			}
		}
	})
}
