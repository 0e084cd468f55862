package processor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/metrics"
)

// The owner record of a changelog partition names the group and the input topic
// whose state it holds, and an incarnation: a random id that the partition gets
// with its first transaction. The metadata of every later offset commit names the
// incarnation as well, so that an offset without the changelog it was committed
// with is noticed: one that was deleted and made again, or whose first records
// were deleted, would restore as if there had never been any state.
//
// The record is written together with the offset at which the partition starts,
// before anything is folded, and is left alone from then on: it stays near the
// front of the log, where a deletion of old records takes it first.

// OwnerKey is the key of the owner record. Keys of other records about the changelog
// begin with it, and no key of keystate does: see AboutLog.
const OwnerKey = "O"

// Owner is the value of an owner record.
type Owner struct {
	Version     int    `json:"version"`
	Group       string `json:"group"`
	Topic       string `json:"topic"`
	Incarnation string `json:"incarnation"`
	Partitions  int    `json:"partitions,omitempty"` // of the topic, when the record was made
}

const ownerVersion = 1

// ParseOwner reads the value of an owner record.
func ParseOwner(value []byte) (o Owner, err error) {
	if err := json.Unmarshal(value, &o); err != nil {
		return o, fmt.Errorf("owner record: %w", err)
	}
	if o.Version != ownerVersion {
		return o, fmt.Errorf("owner record of version %d, and this worker reads version %d", o.Version, ownerVersion)
	}
	return o, nil
}

func (o *Owner) value() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and a number
	}
	return b
}

// Foreign returns why group must not touch log, the changelog of tp, and what to do
// about it; nil where the record is the group's own.
func (o *Owner) Foreign(log string, group string, tp kafka.TP) error {
	if o.Group == group && o.Topic == tp.Topic {
		return nil
	}
	return &RefusedError{TP: tp,
		Reason: fmt.Sprintf("the changelog %s holds the state of group %q and topic %q, not of group %q and topic %q", log, o.Group,
			o.Topic, group, tp.Topic),
		Decide: fmt.Sprintf("another ODRADEK_CHANGELOG_PREFIX for one of the groups, or, if group %q is not used any more, delete the topic %s",
			o.Group, log)}
}

// incarnationField is the name of the incarnation in the metadata of an offset
// commit, which is made of fields between semicolons.
const incarnationField = "log="

// Incarnation returns the changelog's incarnation that the metadata of an offset
// commit names; empty where it names none: a version before has committed it.
func Incarnation(metadata string) string {
	for f := range strings.SplitSeq(metadata, ";") {
		if id, ok := strings.CutPrefix(f, incarnationField); ok {
			return id
		}
	}
	return ""
}

// owned is what a partition knows of its changelog's owner record.
type owned struct {
	log  []Owner // as they stand in the log: one, but where two members began at the same time
	now  Owner   // the record of this partition, written or yet to be
	lack bool    // now has to be written
}

// loadOwner takes an owner record of the changelog log.
func (pt *partition) loadOwner(log kafka.TP, value []byte) error {
	if value == nil {
		pt.owner.log = nil
		return nil
	}
	o, err := ParseOwner(value)
	if err != nil {
		return &RefusedError{TP: pt.tp, Reason: fmt.Sprintf("changelog %s: %v", log, err),
			Decide: "the version of the worker that has written it"}
	}
	if err := o.Foreign(log.Topic, pt.host.cfg.Group, pt.tp); err != nil {
		return err
	}
	pt.owner.log = append(pt.owner.log, o)
	return nil
}

// identify chooses the partition's owner record, given the metadata of the
// committed offset. same reports that the changelog is the one that the metadata
// names, if it names one.
func (pt *partition) identify(metadata string) (same bool) {
	w, id := &pt.owner, Incarnation(metadata)
	w.now = Owner{Version: ownerVersion, Group: pt.host.cfg.Group, Topic: pt.tp.Topic, Partitions: int(pt.siblings.Load())}
	if n := len(w.log); n > 0 {
		w.now.Partitions = w.log[n-1].Partitions
	}
	switch n := len(w.log); {
	case n > 0 && (id == "" || w.log[n-1].Incarnation == id):
		w.now.Incarnation, w.lack = w.log[n-1].Incarnation, false
	case id != "" && slices.ContainsFunc(w.log, func(o Owner) bool { return o.Incarnation == id }):
		// At least once, a member that was thrown out has written its own after the
		// one that counts. Compaction would leave the wrong one.
		w.now.Incarnation, w.lack = id, true
	default:
		w.now.Incarnation, w.lack = randomID(), true
		return id == ""
	}
	return true
}

// begin makes at the committed mark of the state as it is. start reports that
// this has yet to be committed.
func (pt *partition) begin(at int64, start bool) error {
	pt.state.Mark(at)
	pt.state.Committed(at)
	pt.committed.Store(at)
	pt.noted = at
	pt.starting.Store(start || !pt.forward && (pt.owner.lack || pt.lacksSettings()))
	return nil
}

// goFrom goes on at offset, with nothing of what was fetched before. Where the
// start is not committed yet, that comes first: what arrives while the partition
// moves to another member must not be skipped (ODRADEK_START=latest), nor state
// be written that belongs to no offset.
func (pt *partition) goFrom(ctx context.Context, offset int64) error {
	if pt.waiting = pt.starting.Load() && pt.confined.Load() == nil; !pt.waiting {
		pt.seek(offset)
		return nil
	}
	pt.closeSource()
	pt.position.Store(offset)
	err := pt.joinStart(ctx)
	if errors.Is(err, errStaleEpoch) {
		return nil // the command on its way comes back to here
	}
	return err
}

// started begins to fetch once the start is committed.
func (pt *partition) started() {
	if pt.waiting && !pt.starting.Load() {
		pt.waiting = false
		pt.wipe = nil
		pt.seek(pt.position.Load())
	}
}

// joinStart makes the start of the partition a result of the open cycle: its
// offset with a replay floor, the owner and settings records, and deletions of what a state that
// was given up has left in the changelog.
func (pt *partition) joinStart(ctx context.Context) error {
	c, err := pt.host.cycles.enter(ctx, pt.epoch)
	if err != nil {
		return err
	}
	defer pt.host.cycles.leave()
	r := result{next: pt.position.Load(), leader: pt.leader, work: metrics.Work{Held: int64(pt.state.Held()), Fetched: time.Now()}}
	bytes := 0
	if !pt.forward {
		if bytes, err = pt.writeStart(c); err != nil {
			pt.spoil(c, err)
			return err
		}
		r.floor = pt.state.Floor()
	}
	c.add(pt, r, bytes)
	pt.host.cycles.announce()
	return nil
}

func (pt *partition) writeStart(c *cycle) (bytes int, err error) {
	s, b, t := pt.changelog(c)
	defer s.mu.Unlock()
	ms := time.Now().UnixMilli()
	put := func(key, value []byte) {
		if err == nil {
			err = b.Append(ms, key, value, nil)
			bytes += len(key) + len(value)
		}
	}
	for _, key := range pt.wipe {
		put(key, nil)
	}
	if pt.owner.lack {
		put([]byte(OwnerKey), pt.owner.now.value())
	}
	if err == nil && pt.lacksSettings() {
		var n int
		n, err = pt.putSettings(b)
		bytes += n
	}
	if err != nil {
		err = stuckWrite(fmt.Errorf("processor: %s/%d: write to %s: %w", pt.tp.Topic, pt.tp.Partition, t.name, err))
	}
	return bytes, err
}

// metadata is that of the commit of r.
func (pt *partition) metadata(r *result) string {
	if pt.forward {
		return forwarded
	}
	return r.floor.String() + ";" + incarnationField + r.log
}
