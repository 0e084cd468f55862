package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"odradek/processor/kafkatest"
)

// capacity is how many sensors with a sample in 100 ms each a worker serves with a
// p99 below the limit: as many as were tried before the first that was too many, and
// then by halves.
func (b *bench) capacity(ctx context.Context) (rows []benchRow, err error) {
	lof := b.o.lof
	if lof < 0 {
		lof = capacityLOF
	}
	settings, window, note := b.fleetDetectors(lof)
	f, err := b.newFleetInput(ctx, "capacity")
	if err != nil {
		return nil, err
	}
	defer b.dropFleet(f)
	note = fmt.Sprintf("%s, %d partitions, exactly once, %s", note, len(f.keys), b.cluster.Kind)
	start := max(b.scale(cmp.Or(b.o.sensors, 5_000)), 8*len(f.keys))
	cpu := math.NaN()
	for _, side := range b.sides() {
		if side.err != nil {
			rows = append(rows, benchRow{Case: side.name, Skipped: firstLine(side.err.Error())})
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
		r := row(side.name, float64(c.fits), "sensors").noted("%s", c.says).noted("%s", note)
		if side.gpus == 0 {
			cpu, start = float64(c.fits), max(start, c.fits)
		} else {
			if cpu > 0 {
				r = r.against("the CPU executor", cpu, false)
			}
			r = r.want(fmt.Sprintf(">= %s, the paper's cluster", figure(capacityPaper)), c.fits >= capacityPaper)
		}
		r.Device = side.device
		rows = append(rows, r)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// capacityFound is what capacity finds for one executor.
type capacityFound struct {
	fits int
	says string
}

// capacityClose is how near the largest number that fits and the least that does
// not come to each other.
const capacityClose = 1.12

func (b *bench) capacityOf(ctx context.Context, f *fleetInput, side *fleetSide, settings []string, window,
	start int) (c capacityFound, err error) {
	r, err := b.startFleet(ctx, f, side, settings)
	if err != nil {
		return c, err
	}
	defer r.kill()
	if err := r.caughtUp(ctx, 5*time.Minute); err != nil {
		return c, err
	}
	end := time.Now().Add(b.o.budget)
	tooMany, over := 0, "none tried was too many"
	perSensor := time.Duration(0) // to fill the window of one
	for n := start; n > 0; {
		n = (n + len(f.keys) - 1) / len(f.keys) * len(f.keys)
		if more := n - f.sensors(); more > 0 {
			began := time.Now()
			if c.fits > 0 && began.Add(time.Duration(more)*perSensor).After(end) {
				over = fmt.Sprintf("no time was left to fill the windows of %s", figure(float64(n)))
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
		l, err := r.delays(ctx, n, rate, b.span(4*time.Second), b.span(8*time.Second))
		if err == nil && l.quantile(0.99) > capacityLimit && l.quantile(0.9) <= capacityLimit {
			// A single stall, maybe: once more.
			if err = r.caughtUp(ctx, 2*time.Minute); err == nil {
				l, err = r.delays(ctx, n, rate, b.span(4*time.Second), b.span(8*time.Second))
			}
		}
		if err != nil {
			return c, err
		}
		p99, why := l.quantile(0.99), ""
		switch {
		case len(l.micros) == 0:
			why = "no score became visible"
		case l.rate < 0.97*rate:
			why = fmt.Sprintf("the generator reached %s of %s records/s", figure(l.rate), figure(rate))
		case p99 > capacityLimit:
			why = fmt.Sprintf("p99 %.0f ms", p99)
		default:
			c.fits, c.says = n, fmt.Sprintf("p50 %.1f ms, p99 %.1f ms at %s records/s", l.quantile(0.5), p99, figure(l.rate))
		}
		if why != "" {
			tooMany, over = n, fmt.Sprintf("%s sensors were too many: %s", figure(float64(n)), why)
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
		if n < len(f.keys) || time.Now().After(end) {
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
	return c, r.stop(40 * time.Second)
}

// addSensors makes it at least n sensors, the new ones with full windows.
func (b *bench) addSensors(ctx context.Context, r *fleetRun, n, window int) error {
	f := r.f
	have := len(f.keys[0])
	f.grow(n)
	if more := len(f.keys[0]) - have; more > 0 {
		if err := b.fillFleet(ctx, f, have, have+more, more*window); err != nil {
			return err
		}
		return r.caughtUp(ctx, 5*time.Minute)
	}
	return nil
}

// forget deletes what has been read and what was written of it, for the windows of a
// million sensors fill a disk.
func (r *fleetRun) forget(ctx context.Context) error {
	admin := r.b.cluster.Admin()
	for _, topic := range []string{r.f.topic, r.group + "-scores"} {
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
