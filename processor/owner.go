package processor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"odradek/processor/kafka"
)

// This file has the two records of a changelog partition that describe the
// state in it: the owner record names the group and the topic that it belongs to,
// the settings record the settings that it was made with. A restore compares both
// with the configuration, and refuses state that it would misread.

// The owner record of a changelog partition names the group and the input topic
// whose state it holds, and an incarnation: a random id that the partition gets
// with its first transaction. The metadata of every later offset commit names the
// incarnation as well. An offset without the changelog that it was committed with
// is noticed by that: a changelog that was deleted and made again, or whose first
// records were deleted, would restore as if there had never been any state.
//
// The record is written together with the offset at which the partition starts,
// before anything is folded, and never again: it stays near the front of the log,
// where a deletion of old records takes it first.

// OwnerKey is the key of the owner record. The keys of all records that IsRecord
// reports begin with it, and no key of package state does.
const OwnerKey = "O"

// IsRecord reports whether key is of a record that describes a changelog as a
// whole: the owner record, the settings record, or one of a later version. All
// others are of package state.
func IsRecord(key string) bool { return strings.HasPrefix(key, OwnerKey) }

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

// Value returns the value of the owner record.
func (o *Owner) Value() []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// Foreign returns why group must not touch log, the changelog of tp, and what to do
// about it; nil where the record is the group's own.
func (o *Owner) Foreign(log, group string, tp kafka.TP) error {
	if o.Group == group && o.Topic == tp.Topic {
		return nil
	}
	return &RefusedError{TP: tp,
		Reason: fmt.Sprintf("the changelog %s holds the state of group %q and topic %q, not of group %q and topic %q", log, o.Group,
			o.Topic, group, tp.Topic),
		Decide: fmt.Sprintf("another changelog_prefix for one of the groups, or, if group %q is not used any more, delete the topic %s",
			o.Group, log)}
}

// incarnationField is the name of the incarnation in the metadata of an offset
// commit, which is made of fields between semicolons.
const incarnationField = "log="

// Incarnation returns the changelog's incarnation that the metadata of an offset
// commit names; empty where it names none.
func Incarnation(metadata string) string {
	for f := range strings.SplitSeq(metadata, ";") {
		if id, ok := strings.CutPrefix(f, incarnationField); ok {
			return id
		}
	}
	return ""
}

// Metadata returns the metadata of an offset commit: a replay floor and the
// changelog's incarnation.
func Metadata(floor, incarnation string) string { return floor + ";" + incarnationField + incarnation }

// Ownership is what a worker knows about the owner of a changelog partition.
type Ownership struct {
	Owner             // the partition's record, written or yet to be written
	Unwritten bool    // the changelog lacks it
	stored    []Owner // in the changelog: one, or several where two members began at the same time
}

// Load takes in the value of an owner record of log, the changelog of tp; nil for
// its deletion. The record of another owner is refused.
func (o *Ownership) Load(value []byte, log kafka.TP, group string, tp kafka.TP) error {
	if value == nil {
		o.stored = nil
		return nil
	}
	r, err := ParseOwner(value)
	if err != nil {
		return &RefusedError{TP: tp, Reason: fmt.Sprintf("changelog %s: %v", log, err),
			Decide: "the version of the worker that has written it"}
	}
	if err := r.Foreign(log.Topic, group, tp); err != nil {
		return err
	}
	o.stored = append(o.stored, r)
	return nil
}

// Identify chooses the partition's owner record, given the metadata of the
// committed offset and the record that a changelog without one gets: begun, with a
// new incarnation. same reports that the changelog is the one that the metadata
// names, if it names one.
func (o *Ownership) Identify(metadata string, begun Owner) (same bool) {
	id, created := Incarnation(metadata), begun.Incarnation
	o.Owner = begun
	o.Version = ownerVersion
	n := len(o.stored)
	if n > 0 {
		o.Partitions = o.stored[n-1].Partitions
	}
	switch {
	case n > 0 && (id == "" || o.stored[n-1].Incarnation == id):
		o.Incarnation, o.Unwritten = o.stored[n-1].Incarnation, false
	case id != "" && slices.ContainsFunc(o.stored, func(r Owner) bool { return r.Incarnation == id }):
		// At least once, a member that was thrown out has written its own after the
		// one that counts. Compaction would leave the wrong one.
		o.Incarnation, o.Unwritten = id, true
	default:
		o.Incarnation, o.Unwritten = created, true
		return id == ""
	}
	return true
}
