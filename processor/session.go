package processor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/metrics"
)

// session is what the worker is to the brokers: a member of its group, and a producer.
type session struct {
	cfg      *Config
	log      *slog.Logger
	trouble  *metrics.FailureLog
	producer *kafka.Producer              // set by Run
	member   atomic.Pointer[kafka.Member] // set by Run; Status reads it, too
	finder   *finder                      // set by Run
	held     atomic.Pointer[heldOffset]   // that partitions wait for; nil: none
	fatal    fatal
	hanging  *hanging
}

// heldOffset is a committed offset that an open transaction holds, so that it is not known.
type heldOffset struct {
	since time.Time
	err   error // names the group and the partition
}

func (h *heldOffset) Error() string {
	return fmt.Sprintf("an open transaction has held a committed offset for %s: %v", time.Since(h.since).Round(time.Second), h.err)
}

// memberEnded returns why the membership has ended.
func (s *session) memberEnded() error {
	err := s.member.Load().Err()
	if err == nil {
		return errors.New("processor: the group membership ended")
	}
	if kafka.ClassOf(err) == kafka.InstanceFenced {
		return fmt.Errorf("%w: %w", ErrInstanceFenced, err)
	}
	return fmt.Errorf("processor: group %q: %w", s.cfg.Group, err)
}

// stillMember waits a heartbeat to learn whether the group still knows this
// instance: a fenced producer is either our own transaction that timed out, or
// another worker with the same instance id, and only the group knows which.
func (s *session) stillMember(ctx context.Context) error {
	if s.cfg.InstanceID == "" {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.cfg.Heartbeat * 3 / 2):
		if err := s.member.Load().Err(); err != nil {
			return s.memberEnded()
		}
		return nil
	}
}

// reinit gives the producer a new epoch; from then on brokers refuse the old one's
// requests in flight.
func (s *session) reinit(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		ictx, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := s.producer.Init(ictx)
		cancel()
		if err == nil {
			s.hanging.settle(ctx, s.producer)
			return nil
		}
		if kafka.ClassOf(err) == kafka.Fatal || ctx.Err() != nil {
			return fmt.Errorf("processor: restart the producer: %w", err)
		}
		s.trouble.Warn(s.log, "cycle: restart", "producer restart failed, trying again", "err", err)
		select {
		case <-time.After(wait):
		case err := <-s.fatal:
			return err
		}
	}
}

// committedOffsets reads stable offsets and waits until they are known: while a
// transaction of a dead worker is open, they are not.
func (s *session) committedOffsets(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error) {
	defer s.held.Store(nil)
	began, within := time.Now(), min(15*time.Second, max(s.cfg.TransactionTimeout/2, time.Second))
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, within)
		offs, err := s.committed(cctx, tps)
		cancel()
		if err == nil {
			s.trouble.Over(s.log, "committed")
			return offs, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if kafka.ClassOf(err) == kafka.Fatal {
			return nil, fmt.Errorf("processor: read committed offsets of the input in group %q: %w", s.cfg.Group, err)
		}
		if kafka.Held(err) {
			s.held.Store(&heldOffset{began, err})
		}
		if lasts := time.Since(began); kafka.Held(err) && lasts > 2*s.cfg.TransactionTimeout {
			s.hanging.look()
			s.trouble.Warn(s.log, "committed: held", "an open transaction holds committed offsets, and the brokers do not end it, though it is "+
				"older than a worker's may be. The worker ends it where the coordinators' log says how it ended; if this line comes again and "+
				"again, kafka-transactions.sh find-hanging --broker-id, for each broker, names what is open, and kafka-transactions.sh abort "+
				"ends it, in __consumer_offsets last; see docs/operations/trouble.md",
				"err", err, "for", lasts.Round(time.Second))
		} else {
			s.trouble.Warn(s.log, "committed", "committed offsets cannot be read yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// committed reads stable offsets once: of the group, or else of the one before it.
func (s *session) committed(ctx context.Context, tps []kafka.TP) (map[kafka.TP]kafka.Offset, error) {
	offs, err := s.cfg.Client.Offsets.Committed(ctx, s.cfg.Group, tps)
	if err != nil || s.cfg.Predecessor == "" {
		return offs, err
	}
	var none []kafka.TP
	for _, tp := range tps {
		if offs[tp].Offset < 0 {
			none = append(none, tp)
		}
	}
	if len(none) == 0 {
		return offs, nil
	}
	before, err := s.cfg.Client.Offsets.Committed(ctx, s.cfg.Predecessor, none)
	maps.Copy(offs, before)
	return offs, err
}

// TransactionalID returns the transactional id of one worker. With an instance id it is stable, so that
// a restarted worker fences its predecessor and ends its open transaction at
// once; without one it is unique, and a crashed worker's open transaction ends
// by its timeout. It ends with a hash of both names: with plain ones, plant-eu and
// 1 would fence plant and eu-1.
func TransactionalID(group, instance string) string {
	if instance == "" {
		return group + "-" + randomID()
	}
	sum := sha256.Sum256([]byte(group + "\x00" + instance))
	return group + "-" + instance + "-" + hex.EncodeToString(sum[:4])
}

func randomID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// fatal takes the error that ends the worker, the first of several.
type fatal chan error

// fail ends Processor.Run with err.
func (f fatal) fail(err error) {
	select {
	case f <- err:
	default:
	}
}
