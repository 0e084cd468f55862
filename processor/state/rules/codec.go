package rules

import (
	"fmt"
	"slices"

	"odradek/processor/state/changelog"
)

// The changelog has one record for each series that was evicted, of type
// changelog.Eviction: version, offset. Other decisions have a record each, of type
// changelog.Decision, whose name is the kind, a byte, and the subject, followed by the
// offset: version, number of the decision, content.

// put writes the record of a decision.
func (l *DecisionLog) put(out *DecisionOutput, d *Decision) {
	l.enc.Reset()
	l.enc.Byte(changelog.Version)
	if d.Kind == KindEviction {
		l.enc.Uint(uint64(d.Offset))
	} else {
		l.enc.Uint(d.seq)
		l.enc.B = append(l.enc.B, d.Content...)
	}
	l.putRecord(out, d, l.enc.B)
}

// putRecord writes a decision's record, or deletes it.
func (l *DecisionLog) putRecord(out *DecisionOutput, d *Decision, value []byte) {
	if d.Kind == KindEviction {
		out.Put(changelog.Eviction, d.Subject, value)
		return
	}
	l.name = append(append(l.name[:0], byte(d.Kind)), d.Subject...)
	out.Put(changelog.Decision, l.name, value, uint64(d.Offset))
}

// Load reads a decision from the changelog: a record of type changelog.Decision, and the
// number at the end of its key. A nil value deletes the decision. Load retains neither slice.
func (l *DecisionLog) Load(name, value []byte, offset uint64) error {
	if len(name) == 0 || offset > 1<<62 {
		return changelog.ErrCorrupt
	}
	d := &Decision{Kind: Kind(name[0]), Subject: slices.Clone(name[1:]), Offset: int64(offset)}
	if old := l.at(d); old != nil {
		l.unlink(old)
	}
	if value == nil {
		return nil
	}
	if d.Kind == KindEviction || d.Kind >= NumKinds || l.kinds[d.Kind].Name == "" {
		return fmt.Errorf("a decision of kind %d: %w", d.Kind, changelog.ErrNewer)
	}
	dec := changelog.Decoder{B: value}
	dec.Version()
	d.seq = dec.Uint()
	d.Content = slices.Clone(dec.B)
	if dec.Bad {
		return dec.Err()
	}
	if read := l.kinds[d.Kind].Read; read != nil {
		var err error
		if d.Value, err = read(d.Content); err != nil {
			return err
		}
	}
	l.link(d)
	return nil
}

// LoadEviction reads an eviction from the changelog: a record of type changelog.Eviction,
// of which there is at most one for each series.
func (l *DecisionLog) LoadEviction(name, value []byte) error {
	if old := l.Latest(KindEviction, name); old != nil {
		l.unlink(old)
	}
	if value == nil {
		return nil
	}
	d := changelog.Decoder{B: value}
	d.Version()
	offset := d.Offset()
	if err := d.End(); err != nil {
		return err
	}
	l.link(&Decision{Kind: KindEviction, Subject: slices.Clone(name), Offset: offset})
	return nil
}
