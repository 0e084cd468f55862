package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

var kills = flag.Int("kills", short(20, 60), "SIGKILLs of TestKilledAtRandom")

// short returns the first of two sizes, or the second in a long run.
func short(size, long int) int {
	if kafkatest.Long() {
		return long
	}
	return size
}

// eachCluster runs a test on kfake: what it shows depends on the worker and not on how a
// broker behaves, beside others with brokers of their own. A long run has it on all kinds, as
// the tests of the two functions below.
func eachCluster(t *testing.T, f func(t *testing.T, c *kafkatest.Cluster)) {
	ownBrokers(t)
	eachOf(t, kafkatest.Kinds, kafkatest.Kinds[:1], parallel(f))
}

// realCluster runs a test on the newest real version: faults of brokers, members, topics and
// transactions, where kfake may behave as nobody else does.
func realCluster(t *testing.T, f func(t *testing.T, c *kafkatest.Cluster)) {
	eachOf(t, kafkatest.Kinds, kafkatest.Kinds[1:2], parallel(f))
}

// everyCluster runs a test on the newest and on the oldest real version: workers that are fenced and drained, with what the older
// one does otherwise in transactions. The client's tests are on both, too (package kafka).
func everyCluster(t *testing.T, f func(t *testing.T, c *kafkatest.Cluster)) {
	eachOf(t, kafkatest.Kinds, kafkatest.Kinds[1:], parallel(f))
}

// eachOf calls f with each of the kinds; those that are not among the short ones are left to a long
// run. Unless real Kafka is required, as in CI, kfake stays, for a machine without Java.
func eachOf(t *testing.T, kinds, short []string, f func(t *testing.T, kind string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			if !slices.Contains(short, kind) && (kind != kafkatest.KindFake || kafkatest.Required("kafka")) {
				kafkatest.LongOnly(t)
			}
			f(t, kind)
		})
	}
}

// ownBrokers has a test, all of whose brokers are its own, run beside others like it, when those that
// share clusters have ended. In a long run the tests of eachCluster share them, too.
func ownBrokers(t *testing.T) {
	if !kafkatest.Long() {
		t.Parallel()
	}
}

// parallel has a test's kinds of cluster run beside each other: they share no broker, and the
// tests wait much of their time. One test is over before the next begins.
func parallel(f func(t *testing.T, c *kafkatest.Cluster)) func(t *testing.T, kind string) {
	return func(t *testing.T, kind string) {
		t.Parallel()
		f(t, kafkatest.Open(t, kind))
	}
}

// walk makes n records of some sensors: noise, level shifts, missing values.
func walk(t *testing.T, m *measurements, topic string, rng *rand.Rand, sensors, n int) []kafkatest.Record {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	level := make([]float64, sensors)
	recs := make([]kafkatest.Record, 0, n)
	for range n {
		i := m.n // time goes on from call to call
		m.n++
		s := rng.IntN(sensors)
		if rng.IntN(200) == 0 {
			level[s] += 10 * rng.NormFloat64()
		}
		v := level[s] + math.Sin(float64(i)/40) + 0.1*rng.NormFloat64()
		if rng.IntN(100) == 0 {
			v = math.NaN()
		}
		recs = append(recs, m.record(t, topic, fmt.Sprintf("sensor-%03d", s), start.Add(time.Duration(i)*time.Second), v))
	}
	return recs
}

// copied puts the input into a kfake cluster of its own, under the same name and
// with the registry of c, so that what a run leaves there can be compared with
// what it leaves on c: two kinds of broker, one result. Each partition has the same
// records in the same order; the map gives the original's offset for the offset of each
// copy, which differ where the original has offsets without a committed record.
func copied(t *testing.T, c *kafkatest.Cluster, input string) (*kafkatest.Cluster, map[kafkatest.TP]map[int64]int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, c.Admin().WaitStable(ctx, input))
	original, err := c.Admin().ReadAll(ctx, input, true)
	must(t, err)
	partitions, err := c.Admin().Partitions(ctx, input)
	must(t, err)
	fake := kafkatest.Fake(t, kafkatest.FakeOptions{NoRegistry: true})
	fake.Registry = c.RegistryURL(t)
	must(t, fake.Admin().CreateTopic(ctx, input, len(partitions), 0, nil))
	acked, err := fake.ProduceAcked(ctx, original)
	must(t, err)
	offsets := map[kafkatest.TP]map[int64]int64{}
	for i := range original { // both in order of partition and offset
		o, r := &original[i], &acked[i]
		if r.TP() != o.TP() || r.Time != o.Time || !r.Equal(o) {
			t.Fatalf("record %d of the copy is not the original's: %v offset %d, %v offset %d", i, r.TP(), r.Offset, o.TP(), o.Offset)
		}
		if offsets[o.TP()] == nil {
			offsets[o.TP()] = map[int64]int64{}
		}
		offsets[o.TP()][r.Offset] = o.Offset
	}
	return fake, offsets
}

// undisturbed scores a copy of the input with one worker that nothing happens to.
func undisturbed(t *testing.T, c *kafkatest.Cluster, input string, env ...string) map[scoreID]scored {
	t.Helper()
	f, offsets := undisturbedFleet(t, c, input, env...)
	return original(t, f, offsets)
}

// undisturbedFleet is the worker of undisturbed, when it has ended, and the offset in the
// original for each of the copy.
func undisturbedFleet(t *testing.T, c *kafkatest.Cluster, input string, env ...string) (f *fleet,
	offsets map[kafkatest.TP]map[int64]int64) {
	t.Helper()
	fake, offsets := copied(t, c, input)
	f = newFleet(t, fake, input, input+"-undisturbed", env...)
	w := f.start("undisturbed")
	w.waitReady(t)
	f.waitDone()
	if code := w.drain(t); code != exitOK {
		t.Fatalf("the undisturbed worker ended with %d", code)
	}
	return f, offsets
}

// original returns the scores of an undisturbed worker, under the offsets of the original.
func original(t *testing.T, f *fleet, offsets map[kafkatest.TP]map[int64]int64) map[scoreID]scored {
	t.Helper()
	scores, doubled := f.scores()
	if len(doubled) > 0 {
		t.Fatalf("the undisturbed run doubled %d scores, such as %v", len(doubled), doubled[0])
	}
	got := make(map[scoreID]scored, len(scores))
	for id, s := range scores {
		at, ok := offsets[kafkatest.TP{Topic: id.topic, Partition: id.partition}][id.offset]
		if !ok {
			t.Fatalf("the undisturbed run has a score for %v, which is no record of the input", id)
		}
		id.offset = at
		got[id] = s
	}
	return got
}

// TestKilledAtRandom: three workers, one of them killed again and again while
// the input comes in, one joining late, one leaving: the scores equal an
// undisturbed run's, record for record.
func TestKilledAtRandom(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 6)
		m := newMeasurements(t, c.RegistryURL(t), input)
		f := newFleet(t, c, input, input+"-g")
		ctx := context.Background()
		produce := func(n int) {
			if _, err := c.ProduceAcked(ctx, walk(t, m, input, rng, 40, n)); err != nil {
				t.Fatal(err)
			}
		}
		produce(2000)
		const static = "INSTANCE_ID=" // comes back under its name, as in a StatefulSet
		f.start("w0", static+"w0").waitReady(t)
		f.start("w1", static+"w1")
		victim := f.start("victim-0", static+"victim")
		var late, leaver *child
		for i := range *kills {
			produce(500 + rng.IntN(500))
			time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
			victim.kill()
			switch i {
			case *kills / 4:
				late = f.start("late", static+"late")
			case *kills / 2:
				leaver = late
				if code := leaver.drain(t); code != exitOK {
					t.Errorf("the leaving worker ended with %d", code)
				}
			}
			victim = f.start(fmt.Sprintf("victim-%d", i+1), static+"victim")
			if rng.IntN(2) == 0 {
				victim.waitReady(t)
			}
		}
		f.waitDone()
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
		}
		compare(t, "killed", undisturbed(t, c, input), got)
		t.Logf("%d scores after %d kills", len(got), *kills)
	})
}

// TestFailpoints kills a worker at each step of the commit.
func TestFailpoints(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 3)
		m := newMeasurements(t, c.RegistryURL(t), input)
		f := newFleet(t, c, input, input+"-g", "INSTANCE_ID=only")
		ctx := context.Background()
		for _, point := range []string{"idle-before-end", "before-send", "before-end", "after-end", "before-end", "before-send", "after-end"} {
			if _, err := c.ProduceAcked(ctx, walk(t, m, input, rng, 20, 3000)); err != nil {
				t.Fatal(err)
			}
			w := f.start(point, "TEST_FAILPOINT="+point)
			if code := w.exit(t); code != -1 {
				t.Fatalf("%s: the worker ended with %d, not by SIGKILL", point, code)
			}
		}
		w := f.start("last")
		w.waitReady(t)
		f.waitDone()
		if code := w.drain(t); code != exitOK {
			t.Errorf("drain ended with %d", code)
		}
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
		}
		compare(t, "failpoints", undisturbed(t, c, input), got)
	})
}

// TestOffsetsFirstIsCaught is the negative control: a worker that commits its
// offsets before its outputs loses scores when it is killed in between, and the
// comparison must say so.
func TestOffsetsFirstIsCaught(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 2)
		m := newMeasurements(t, c.RegistryURL(t), input)
		if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 10, 2000)); err != nil {
			t.Fatal(err)
		}
		f := newFleet(t, c, input, input+"-g", "GUARANTEE=at_least_once", "INSTANCE_ID=only", "STATE_LOST=reset")
		w := f.start("broken", "TEST_BROKEN=offsets-first", "TEST_FAILPOINT=offsets-first:1")
		if code := w.exit(t); code != -1 {
			t.Fatalf("the broken worker ended with %d, not by SIGKILL", code)
		}
		w = f.start("next")
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
		got, _ := f.scores()
		missing := 0
		for id := range undisturbed(t, c, input) {
			if _, ok := got[id]; !ok {
				missing++
			}
		}
		if missing == 0 {
			t.Fatal("the checker did not notice that offsets were committed before outputs")
		}
		t.Logf("the broken variant lost %d scores, as it must", missing)
	})
}

// TestAtLeastOnce: doubled scores are allowed after a kill, with the same id and
// the same content; none may be missing.
func TestAtLeastOnce(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 3)
		m := newMeasurements(t, c.RegistryURL(t), input)
		f := newFleet(t, c, input, input+"-g", "GUARANTEE=at_least_once", "INSTANCE_ID=only")
		for _, point := range []string{"idle-before-offsets", "before-changelog", "before-offsets"} {
			if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 20, 3000)); err != nil {
				t.Fatal(err)
			}
			w := f.start(point, "TEST_FAILPOINT="+point)
			if code := w.exit(t); code != -1 {
				t.Fatalf("%s: the worker ended with %d, not by SIGKILL", point, code)
			}
		}
		w := f.start("last")
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
		got, doubled := f.scores()
		compare(t, "at least once", undisturbed(t, c, input), got)
		t.Logf("%d scores, %d of them written again", len(got), len(doubled))
	})
}

// TestFence: a second worker with the same instance id ends the first, and no
// score is doubled.
func TestFence(t *testing.T) {
	everyCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 3)
		m := newMeasurements(t, c.RegistryURL(t), input)
		f := newFleet(t, c, input, input+"-g", "INSTANCE_ID=twin")
		first := f.start("first")
		first.waitReady(t)
		for range 4 {
			if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 20, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		second := f.start("second")
		if code := first.exit(t); code != exitFenced {
			t.Errorf("the fenced worker ended with %d, want %d", code, exitFenced)
		}
		f.waitDone()
		second.drain(t)
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
		}
		compare(t, "fence", undisturbed(t, c, input), got)
	})
}

// TestDrain: SIGTERM under load ends with exit code 0, and the next worker goes
// on without a gap and without replaying much.
func TestDrain(t *testing.T) {
	everyCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 3)
		m := newMeasurements(t, c.RegistryURL(t), input)
		f := newFleet(t, c, input, input+"-g")
		for i := range 4 {
			w := f.start(fmt.Sprintf("w%d", i))
			if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 20, 2000)); err != nil {
				t.Fatal(err)
			}
			w.waitReady(t)
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
			if code := w.drain(t); code != exitOK {
				t.Errorf("drain ended with %d", code)
			}
		}
		w := f.start("last")
		w.waitReady(t)
		if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 20, 2000)); err != nil {
			t.Fatal(err)
		}
		f.waitDone()
		w.waitCounted(t, nil)
		w.drain(t)
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
		}
		compare(t, "drain", undisturbed(t, c, input), got)
	})
}

// accounted checks the accounting equation of processor.Metrics on a scrape.
func accounted(scrape string) error {
	sum := map[string]float64{}
	for line := range strings.Lines(scrape) {
		name, rest, ok := strings.Cut(line, "{")
		if !ok || !strings.HasPrefix(name, "odradek_records_") {
			continue
		}
		_, value, _ := strings.Cut(rest, "} ")
		var v float64
		fmt.Sscan(value, &v)
		sum[strings.TrimSuffix(strings.TrimPrefix(name, "odradek_records_"), "_total")] += v
	}
	_, counted := sum["consumed"]
	in := sum["consumed"] + sum["further_samples"] + sum["held_assigned"]
	var out float64
	for _, k := range []string{"scored", "warming_up", "missing", "filtered", "late", "duplicate", "aggregated", "dead_lettered", "skipped",
		"forwarded",
		"held", "held_revoked", "held_evicted", "backfilled"} {
		out += sum[k]
	}
	if !counted || in != out {
		return fmt.Errorf("the accounting equation does not hold: consumed %v, accounted for %v: %v", in, out, sum)
	}
	return nil
}

// waitCounted waits until the worker's counters of records account for every sample and have the values of want, by their names
// without odradek_records_ and _total, and returns the metrics. It waits, as a commit is seen at the broker before the worker has
// counted it.
func (c *child) waitCounted(t *testing.T, want map[string]string) string {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, scrape := c.get("/metrics")
		err := accounted(scrape)
		for name, value := range want {
			if got := counted(scrape, name); got != value {
				err = errors.Join(err, fmt.Errorf("%s: %s, want %s", name, got, value))
			}
		}
		if err == nil {
			return scrape
		}
		if time.Now().After(end) {
			t.Errorf("%s: %v", c.name, err)
			return scrape
		}
	}
}
