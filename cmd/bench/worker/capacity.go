package worker

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/processor/kafkatest"
)

// Capacity finds how many sensors with a sample every 100 ms a worker serves with a p99 below
// the limit: it doubles their number until it is too large, and then bisects.
func (b *FleetBench) Capacity(ctx context.Context) (rows []testbed.Row, err error) {
	lof := b.LOF
	if lof < 0 {
		lof = capacityLOF
	}
	settings, window, note := b.fleetDetectors(lof)
	f, err := b.newFleetInput(ctx, "capacity")
	if err != nil {
		return nil, err
	}
	defer b.dropFleet(f)
	note = fmt.Sprintf("%s, %d partitions, exactly once, %s", note, len(f.Keys), b.Cluster.Kind)
	start := max(b.Scale(cmp.Or(b.Sensors, 5_000)), 8*len(f.Keys))
	cpu := math.NaN()
	for _, side := range b.sides() {
		if side.err != nil {
			rows = append(rows, testbed.Row{Case: side.name, Skipped: testbed.FirstLine(side.err.Error())})
			continue
		}
		c, err := b.capacityOf(ctx, f, &side, settings, window, start)
		if err != nil {
			err = fmt.Errorf("%s: %w", side.name, err)
			if c.fits == 0 {
				return rows, err
			}
			c.says += "; the search broke off"
		}
		r := testbed.NewRow(side.name, float64(c.fits), "sensors").Noted("%s", c.says).Noted("%s", note)
		if side.gpus == 0 {
			cpu, start = float64(c.fits), max(start, c.fits)
		} else {
			if cpu > 0 {
				r = r.Against("the CPU executor", cpu, false)
			}
			r = r.Want(fmt.Sprintf(">= %s, the paper's cluster", testbed.Figure(capacityPaper)), c.fits >= capacityPaper)
		}
		r.Device = side.device
		rows = append(rows, r)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// capacityFound is the result of capacity for one executor.
type capacityFound struct {
	fits int
	says string
}

// capacityClose is the ratio of the least failing and the largest passing number at which the
// search ends.
const capacityClose = 1.12

func (b *FleetBench) capacityOf(ctx context.Context, f *fleetInput, side *fleetSide, settings []string, window,
	start int) (c capacityFound, err error) {
	r, err := b.startFleet(ctx, f, side, settings)
	if err != nil {
		return c, err
	}
	defer r.Kill()
	if err := r.caughtUp(ctx, 5*time.Minute); err != nil {
		return c, err
	}
	end := time.Now().Add(b.Budget)
	tooMany, over := 0, "none tried was too many"
	perSensor := time.Duration(0) // to fill the window of one
	for n := start; n > 0; {
		n = (n + len(f.Keys) - 1) / len(f.Keys) * len(f.Keys)
		if more := n - f.sensors(); more > 0 {
			began := time.Now()
			if c.fits > 0 && began.Add(time.Duration(more)*perSensor).After(end) {
				over = fmt.Sprintf("no time was left to fill the windows of %s", testbed.Figure(float64(n)))
				break
			}
			if err := b.addSensors(ctx, r, n, window); err != nil {
				return c, err
			}
			if err := r.forget(ctx); err != nil {
				return c, err
			}
			perSensor = time.Since(began) / time.Duration(more)
		}
		rate := float64(n) * sensorRate
		l, err := r.delays(ctx, n, rate, b.Span(4*time.Second), b.Span(8*time.Second))
		if err == nil && l.Quantile(0.99) > capacityLimit && l.Quantile(0.9) <= capacityLimit {
			// Possibly a single stall: repeated once.
			if err = r.caughtUp(ctx, 2*time.Minute); err == nil {
				l, err = r.delays(ctx, n, rate, b.Span(4*time.Second), b.Span(8*time.Second))
			}
		}
		if err != nil {
			return c, err
		}
		p99, why := l.Quantile(0.99), ""
		switch {
		case len(l.Micros) == 0:
			why = "no score became visible"
		case l.Rate < 0.97*rate:
			why = fmt.Sprintf("the generator reached %s of %s records/s", testbed.Figure(l.Rate), testbed.Figure(rate))
		case p99 > capacityLimit:
			why = fmt.Sprintf("p99 %.0f ms", p99)
		default:
			c.fits, c.says = n, fmt.Sprintf("p50 %.1f ms, p99 %.1f ms at %s records/s", l.Quantile(0.5), p99, testbed.Figure(l.Rate))
		}
		if why != "" {
			tooMany, over = n, fmt.Sprintf("%s sensors were too many: %s", testbed.Figure(float64(n)), why)
		}
		switch {
		case tooMany == 0:
			n = 2 * c.fits
		case c.fits == 0:
			n = tooMany / 2
		case float64(tooMany)/float64(c.fits) < capacityClose:
			n = 0
		default:
			n = (c.fits + tooMany) / 2
		}
		if n < len(f.Keys) || time.Now().After(end) {
			break
		}
		if err := r.caughtUp(ctx, 2*time.Minute); err != nil {
			return c, err
		}
	}
	c.says = fmt.Sprintf("p99 <= %d ms; %s; %s", capacityLimit, c.says, over)
	if err := r.caughtUp(ctx, 2*time.Minute); err != nil {
		return c, err
	}
	return c, r.Stop(40 * time.Second)
}

// addSensors raises the number of sensors to n, the new ones with full windows.
func (b *FleetBench) addSensors(ctx context.Context, r *fleetRun, n, window int) error {
	f := r.f
	have := len(f.Keys[0])
	f.grow(n)
	if more := len(f.Keys[0]) - have; more > 0 {
		if err := b.fillFleet(ctx, f, have, have+more, more*window); err != nil {
			return err
		}
		return r.caughtUp(ctx, 5*time.Minute)
	}
	return nil
}

// forget deletes consumed input and its outputs, because the windows of a million sensors fill
// a disk.
func (r *fleetRun) forget(ctx context.Context) error {
	admin := r.b.Cluster.Admin()
	for _, topic := range []string{r.f.Topic, r.Group + "-scores"} {
		ends, err := admin.Ends(ctx, topic, kafkatest.LastStable)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if err := admin.DeleteRecords(ctx, topic, p, end); err != nil {
				return err
			}
		}
	}
	return nil
}
