package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

var faultRounds = flag.Int("faultrounds", short(1, 3), "how often the tests of faults do what they do")

// ordeal is a fleet under load while faults happen to it. How it ends is the
// same for all faults: once they are over everything is scored,
// and the scores are as from one worker that nothing happened to, record for
// record, none twice.
type ordeal struct {
	*fleet
	rng *rand.Rand
	m   *measurements

	ctx  context.Context // ends with the test
	stop func()          // ends the load
	wg   sync.WaitGroup
	rest time.Duration // longest time without a commit while there was input
	sent int
	err  error

	prepared []string // settings of the undisturbed run
}

// newOrdeal makes a fresh input topic and the fleet for it; env holds for the
// disturbed workers and for the undisturbed one.
func newOrdeal(t *testing.T, c *kafkatest.Cluster, partitions int, env ...string) *ordeal {
	t.Helper()
	rng := seedtest.New(t)
	input := c.Topic(t, "in", partitions)
	o := &ordeal{rng: rng, m: newMeasurements(t, c.RegistryURL(t), input), stop: func() {}, prepared: env}
	o.fleet = newFleet(t, c, input, input+"-g", env...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*faultRounds)*12*time.Minute)
	o.ctx = ctx
	t.Cleanup(func() { o.stop(); cancel(); o.wg.Wait() })
	return o
}

// load writes about rate records a second until the ordeal ends, and watches
// how long the group goes without a commit.
func (o *ordeal) load(rate int) {
	o.t.Helper()
	p, err := kafkatest.NewProducer(o.c.Brokers)
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, rng := o.ctx, rand.New(rand.NewPCG(o.rng.Uint64(), 2))
	stop := make(chan struct{})
	o.stop = sync.OnceFunc(func() { close(stop) })
	o.wg.Go(func() {
		defer p.Close()
		for {
			pause := time.Duration(5+rng.IntN(60)) * time.Millisecond
			select {
			case <-stop:
				o.err = p.Flush(ctx)
				if n := len(p.Ledger().Refused()) + len(p.Ledger().Unknown()); n > 0 {
					o.err = errors.Join(o.err, fmt.Errorf("%d records of the input were not acknowledged", n))
				}
				return
			case <-time.After(pause):
			}
			recs := walk(o.t, o.m, o.input, rng, 40, 1+int(pause.Seconds()*float64(rate)))
			o.sent += len(recs)
			p.Produce(ctx, recs...)
		}
	})
	o.wg.Go(func() {
		last, since := int64(0), time.Now()
		for {
			select {
			case <-stop:
				o.rest = max(o.rest, time.Since(since))
				return
			case <-time.After(100 * time.Millisecond):
			}
			if sum := o.committed(); sum > last {
				if last > 0 {
					o.rest = max(o.rest, time.Since(since))
				}
				last, since = sum, time.Now()
			}
		}
	})
}

// pause waits between the two times, chosen at random.
func (o *ordeal) pause(least, most time.Duration) {
	time.Sleep(least + time.Duration(o.rng.Int64N(int64(most-least)+1)))
}

// committed returns the sum of the group's offsets, -1 where it cannot be had.
func (o *ordeal) committed() int64 {
	ctx, cancel := context.WithTimeout(o.ctx, 2*time.Second)
	defer cancel()
	offs, err := o.c.Admin().Offsets(ctx, o.group, false)
	if err != nil {
		return -1
	}
	sum := int64(0)
	for tp, c := range offs {
		if tp.Topic == o.input {
			sum += c.Offset
		}
	}
	return sum
}

// goesOn waits for the next commit after a fault.
func (o *ordeal) goesOn(after string) {
	o.t.Helper()
	began := time.Now()
	for at := o.committed(); ; time.Sleep(50 * time.Millisecond) {
		switch now := o.committed(); {
		case at < 0:
			at = now
		case now > at:
			o.t.Logf("%s: commits %v after it was over", after, time.Since(began).Round(10*time.Millisecond))
			return
		case time.Since(began) > patience:
			o.t.Fatalf("%s: no commit within %v after it was over", after, patience)
		}
	}
}

// awaitScored ends the load and waits until all input is scored.
func (o *ordeal) awaitScored(what string) {
	o.t.Helper()
	o.stop()
	o.wg.Wait()
	if o.err != nil {
		o.t.Fatalf("%s: the input could not be written: %v", what, o.err)
	}
	began := time.Now()
	o.waitDone()
	o.t.Logf("%s: all of %d records scored %v after the last fault; %v without a commit at most", what, o.sent,
		time.Since(began).Round(10*time.Millisecond), o.rest.Round(10*time.Millisecond))
}

// end awaits the scores, drains the workers that run and compares.
func (o *ordeal) end(what string) {
	o.t.Helper()
	o.awaitScored(what)
	o.drainAll(what)
	o.compare(what)
}

// running lists the workers whose process has not ended.
func (o *ordeal) running() []*child {
	o.mu.Lock()
	defer o.mu.Unlock()
	var ws []*child
	for _, w := range o.workers {
		select {
		case <-w.done:
		default:
			ws = append(ws, w)
		}
	}
	return ws
}

func (o *ordeal) drainAll(what string) {
	o.t.Helper()
	for _, w := range o.running() {
		_, body := w.get("/metrics")
		if strings.Contains(body, "\nodradek_records_consumed_total{") {
			w.waitCounted(o.t, nil)
		}
		if code := w.drain(o.t); code != exitOK {
			o.t.Errorf("%s: %s drained with %d", what, w.name, code)
		}
	}
}

func (o *ordeal) compare(what string) {
	o.t.Helper()
	got, doubled := o.scores()
	if len(doubled) > 0 {
		o.t.Errorf("%s: %d scores doubled, such as %v", what, len(doubled), doubled[0])
	}
	if dead := o.deadLetters(); len(dead) > 0 {
		text, _ := dead[0].Header("__streams.errors.message")
		o.t.Errorf("%s: %d dead letters, such as %s", what, len(dead), text)
	}
	if len(got) == 0 {
		o.t.Fatalf("%s: no scores at all", what)
	}
	compare(o.t, what, undisturbed(o.t, o.c, o.input, o.prepared...), got)
}

// deadLetters reads the group's dead letters.
func (o *ordeal) deadLetters() []kafkatest.Record {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := o.c.Admin().WaitStable(ctx, o.group+"-dlq"); err != nil {
		o.t.Fatal(err)
	}
	dead, err := o.c.Admin().ReadAll(ctx, o.group+"-dlq", true)
	if err != nil {
		o.t.Fatal(err)
	}
	return dead
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitLogged waits until a worker's log has the text.
func (c *child) waitLogged(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); !c.logged(text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b, _ := os.ReadFile(c.log)
			t.Fatalf("the log of %s has no %q after %v:\n%s", c.name, text, patience, b)
		}
	}
}
