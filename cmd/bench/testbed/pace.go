package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Tick is a measurement of a process at one moment.
type Tick struct {
	At          time.Time
	Records     int64 // done
	CPU, broker time.Duration
	Busy, Idle  time.Duration // of all cores
}

// Pace is the rate and the costs of a process in its steady interval.
type Pace struct {
	Rate   float64 // records a second
	CPU    float64 // ns of the process a record
	Broker float64 // ns of the broker a record; 0 where it is not ours
	Idle   float64 // share of the cores that nothing used
	Others float64 // share that neither the process nor our broker used, this process included
	Span   time.Duration
}

func (p Pace) String() string {
	return fmt.Sprintf("%s records/s, %s ns a record, broker %s ns, over %v; cores %.0f%% idle, %.0f%% with others",
		Figure(p.Rate), Figure(p.CPU), Figure(p.Broker), p.Span.Round(time.Millisecond), 100*p.Idle, 100*p.Others)
}

// Watch measures a process every 200 ms until it has done total records.
func (b *Bed) Watch(ctx context.Context, p *Process, total int64, limit time.Duration,
	count func() (int64, error)) ([]Tick, error) {
	var ticks []Tick
	deadline := time.Now().Add(limit)
	for {
		n, err := count()
		if err == nil {
			err = p.Ended()
		}
		if err != nil {
			return nil, err
		}
		ticks = append(ticks, b.Tick(p, n))
		if n >= total {
			return ticks, nil
		}
		if time.Now().After(deadline) {
			return nil, p.Failed(fmt.Errorf("%d of %d records in %v", n, total, limit))
		}
		if err := Pause(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// Tick records the processor times when a process has done n records.
func (b *Bed) Tick(p *Process, n int64) Tick {
	busy, idle := MachineCPU()
	return Tick{time.Now(), n, p.CPU(), b.BrokerCPU(), busy, idle}
}

// BrokerCPU returns the processor time of the brokers that this program started.
func (b *Bed) BrokerCPU() (sum time.Duration) {
	for _, n := range b.Cluster.Nodes() {
		sum += ProcessCPU(n.PID())
	}
	return sum
}

// Steady returns the pace between two fractions of the total: after connecting and warming up, and before partitions run dry.
func Steady(ticks []Tick, from, to float64) (Pace, error) {
	total := float64(ticks[len(ticks)-1].Records)
	i, j := 0, len(ticks)-1
	for i < len(ticks)-1 && float64(ticks[i].Records) < from*total {
		i++
	}
	for j > 0 && float64(ticks[j].Records) > to*total {
		j--
	}
	if j <= i {
		return Pace{}, errors.New("too few records to measure a steady interval")
	}
	a, z := ticks[i], ticks[j]
	n, span := float64(z.Records-a.Records), z.At.Sub(a.At)
	p := Pace{Rate: n / span.Seconds(), CPU: float64(z.CPU-a.CPU) / n, Broker: float64(z.broker-a.broker) / n, Span: span}
	if all := float64(z.Busy - a.Busy + z.Idle - a.Idle); all > 0 {
		p.Idle = float64(z.Idle-a.Idle) / all
		p.Others = float64(z.Busy-a.Busy-(z.CPU-a.CPU)-(z.broker-a.broker)) / all
	}
	return p, nil
}

// MaxOthers is the share of the cores that other processes may take before a
// figure is called disturbed; this process and the kernel take a few percent.
const MaxOthers = 0.08

// Load has the processor times up to a moment.
type Load struct{ busy, idle, ours time.Duration }

// Load returns the processor times of the machine, and of worker, brokers and this process together.
func (b *Bed) Load(w *Worker) Load {
	busy, idle := MachineCPU()
	return Load{busy, idle, w.CPU() + b.BrokerCPU() + ProcessCPU(os.Getpid())}
}

// OthersSince returns the share of the cores that other processes took since m.
func (l Load) OthersSince(m Load) float64 {
	busy := l.busy - m.busy
	return float64(busy-(l.ours-m.ours)) / float64(max(1, busy+l.idle-m.idle))
}
