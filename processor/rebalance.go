package processor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/group"
)

// rebalance handles a group event. An error ends the worker.
func (p *Processor) rebalance(ctx context.Context, ev group.Event) error {
	defer ev.Done()
	p.cycles.spare = nil // it may hold memory for partitions that leave
	switch ev.Kind {
	case group.Assigned:
		p.log.Info("assigned", "generation", ev.Generation.ID, "partitions", len(ev.Partitions))
		p.cfg.Metrics.Rebalanced("assigned")
		if err := p.recount(ctx); err != nil {
			return err
		}
		if len(ev.Partitions) == 0 {
			return nil
		}
		for _, tp := range ev.Partitions {
			if err := p.outgrown(tp); err != nil {
				return err
			}
		}
		// One request for all, but not here: an offset may wait for the open
		// transaction of a dead worker, and other partitions continue meanwhile.
		tps := ev.Partitions
		offsets := sync.OnceValues(func() (map[kafka.TP]kafka.Offset, error) { return p.committedOffsets(ctx, tps) })
		for _, tp := range ev.Partitions {
			if old := p.partitions[tp]; old != nil {
				p.drop(old)
			}
			pt := newPartition(p.host, tp)
			p.add(pt)
			pt.start(ctx, offsets)
		}
	case group.Revoked:
		p.log.Info("revoked", "generation", ev.Generation.ID, "partitions", len(ev.Partitions))
		p.cfg.Metrics.Rebalanced("revoked")
		return p.handOver(ctx, ev.Partitions)
	case group.Lost:
		// Another member may own them already: their uncommitted results must not be
		// committed, and the open cycle contains results of several partitions.
		p.log.Warn("lost", "partitions", len(ev.Partitions))
		p.cfg.Metrics.Rebalanced("lost")
		p.committed(p.committer.dropOffsets())
		for _, tp := range ev.Partitions {
			if pt := p.partitions[tp]; pt != nil {
				p.drop(pt)
			}
		}
		p.abandonOpen()
		return p.rollback(ctx, nil)
	}
	return nil
}

// handOver stops the partitions, commits their finished results and removes
// them. Their goroutines may be waiting for room, so commits continue meanwhile.
func (p *Processor) handOver(ctx context.Context, tps []kafka.TP) error {
	var stopping []*partition
	for _, tp := range tps {
		if pt := p.partitions[tp]; pt != nil {
			if !pt.running.Load() {
				pt.cancel() // it is restoring, and has nothing to commit
			}
			pt.commands.send(stopSoon)
			stopping = append(stopping, pt)
		}
	}
	for _, pt := range stopping {
		for waiting := true; waiting; {
			select {
			case <-pt.done:
				waiting = false
			case <-p.cycles.ready:
				if err := p.commitOpen(ctx); err != nil {
					return err
				}
			case err := <-p.committer.offsets():
				if err := p.offsetsAnswered(ctx, err); err != nil {
					return err
				}
			case err := <-p.fatal:
				return err
			}
		}
	}
	if err := p.commitOpen(ctx); err != nil {
		return err
	}
	if err := p.flushOffsets(ctx); err != nil {
		return err
	}
	for _, pt := range stopping {
		p.remove(pt)
	}
	return nil
}

// drop ends a partition at once, without committing its results.
func (p *Processor) drop(pt *partition) {
	pt.running.Store(false)
	pt.cancel()
	pt.wait()
	p.remove(pt)
}

func (p *Processor) abandonAll() {
	for _, pt := range p.partitions {
		p.drop(pt)
	}
}

func (p *Processor) add(pt *partition) {
	p.partitions[pt.tp] = pt
	p.statusMu.Lock()
	p.status[pt.tp] = pt
	p.budget.Join(pt.tp)
	p.statusMu.Unlock()
}

func (p *Processor) remove(pt *partition) {
	pt.cancel()
	delete(p.partitions, pt.tp)
	p.statusMu.Lock()
	delete(p.status, pt.tp)
	p.budget.Leave(pt.tp)
	p.statusMu.Unlock()
	p.cfg.Metrics.DropPartition(pt.tp)
}

// stillMember waits a heartbeat to learn whether the group still knows this
// instance: a fenced producer is either our own transaction that timed out, or
// another worker with the same instance id, and only the group knows which.
func (p *Processor) stillMember(ctx context.Context) error {
	if p.cfg.InstanceID == "" {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(p.cfg.Heartbeat * 3 / 2):
		if err := p.member.Err(); err != nil {
			return p.memberEnded()
		}
		return nil
	}
}

func randomID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
