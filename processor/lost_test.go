package processor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafkatest"
	"odradek/processor/metrics"
)

// A worker whose brokers do not answer is not ready, says so, and is ready again by
// itself when they are back; it is not hung all that time.
func TestNotReadyWithoutBrokers(t *testing.T) {
	b := newBench(t, 2)
	b.produce(200)
	cfg := b.config("")
	cfg.Session = 1500 * time.Millisecond
	cfg.Fetch.LostAfter = 300 * time.Millisecond
	p, _ := b.start(cfg)
	cfg.Metrics.Watch(p.Status)
	cfg.Metrics.WatchReady(p.NotReady)
	ready := func(what string) {
		t.Helper()
		waitFor(t, what+": ready and all committed", func() bool {
			n := int64(0)
			for _, s := range p.Status() {
				n += s.Committed
			}
			return p.Ready() && n >= int64(b.n)
		})
	}
	ready("at first")
	if gathered(t, cfg.Metrics, "odradek_ready") != 1 {
		t.Error("odradek_ready is not 1")
	}

	// Fetches are not answered; the group is.
	cut := func(keys ...int16) (mend func()) {
		off := make(chan struct{})
		for _, k := range keys {
			b.c.Fake.ControlKey(k, func(kmsg.Request) (kmsg.Response, error, bool) {
				select {
				case <-off:
					return nil, nil, false
				default:
					b.c.Fake.KeepControl()
					return nil, errors.New("cut"), true
				}
			})
		}
		return func() { close(off) }
	}
	mend := cut(int16(kmsg.Fetch))
	time.Sleep(50 * time.Millisecond) // an answer under way
	b.produce(100)
	waitFor(t, "not ready without answers to fetches", func() bool { return !p.Ready() })
	if err := p.NotReady(); err == nil || !strings.Contains(err.Error(), "no fetch has been answered") {
		t.Errorf("not ready: %v", err)
	}
	if age := gathered(t, cfg.Metrics, "odradek_fetch_age_seconds"); age < 0.3 || gathered(t, cfg.Metrics, "odradek_ready") != 0 {
		t.Errorf("fetch ages of %v s together, ready", age)
	}
	if err := p.Stalled(0); err != nil {
		t.Errorf("brokers that do not answer make it stalled: %v", err)
	}
	mend()
	ready("after fetches are answered again")

	// Nothing is answered for longer than the session.
	mend = cut(int16(kmsg.Fetch), int16(kmsg.Heartbeat), int16(kmsg.JoinGroup), int16(kmsg.FindCoordinator))
	waitFor(t, "the partitions are lost", func() bool { return len(p.Status()) == 0 })
	if err := p.NotReady(); err == nil || !strings.Contains(err.Error(), "not in the group") {
		t.Errorf("not ready: %v", err)
	}
	b.produce(100)
	mend()
	ready("after the group is back")
}

// A member that the group has no partition for does all it can: it is ready.
func TestSpareMemberIsReady(t *testing.T) {
	b := newBench(t, 1)
	b.produce(10)
	p, _ := b.start(b.config("one"))
	q, _ := b.start(b.config("two"))
	waitFor(t, "both are ready", func() bool {
		return p.Ready() && q.Ready() && len(p.Status())+len(q.Status()) == 1
	})
}

// The end of the log is known beyond an open transaction and of an idle partition,
// and so is the lag of one that is being restored.
func TestEndsAreKnown(t *testing.T) {
	b := newBench(t, 1)
	b.produce(100)
	cfg := b.config("one")
	p, stop := b.start(cfg)
	cfg.Metrics.Watch(p.Status)
	lags := func(m *metrics.Metrics) [2]float64 {
		return [2]float64{gathered(t, m, "odradek_consumer_lag_records"), gathered(t, m, "odradek_high_watermark_lag_records")}
	}
	waitFor(t, "all is committed", func() bool {
		l := p.Status()
		return len(l) == 1 && l[0].Committed == 100 && l[0].Lag == 0
	})
	txn, err := kafkatest.NewTxnProducer(b.c.Brokers, "dead")
	if err != nil {
		t.Fatal(err)
	}
	defer txn.Close()
	rec := kafkatest.Record{Topic: b.input, Partition: 0, Key: []byte("k"), Value: []byte("x")}
	if err := txn.Write(context.Background(), rec, rec, rec); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the high watermark is past the open transaction", func() bool { return lags(cfg.Metrics) == [2]float64{0, 3} })
	stop(nil)

	// Restored while nothing answers fetches: the lag is known all the same.
	b.c.Fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		return nil, errors.New("cut"), true
	})
	if err := txn.End(context.Background(), true); err != nil {
		t.Fatal(err)
	}
	cfg = b.config("one")
	p, stop = b.start(cfg)
	cfg.Metrics.Watch(p.Status)
	// with the marker
	waitFor(t, "the lag of a partition that is restored", func() bool { return lags(cfg.Metrics) == [2]float64{4, 4} })
	if p.Ready() {
		t.Error("ready while it restores")
	}
	b.c.Fake.ControlKey(int16(kmsg.Fetch), nil)
	stop(errors.New("enough"))
}
