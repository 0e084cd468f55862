package rules

import "cmp"

// less reports whether d comes before e.
func (d *Decision) less(e *Decision) bool {
	return d.Offset < e.Offset || d.Offset == e.Offset && d.seq < e.seq
}

// byDue compares decisions by the order in which they are forgotten.
func byDue(a, b *Decision) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.seq, b.seq),
		cmp.Compare(string(a.Subject), string(b.Subject)))
}

// subjects holds the decisions that a replay may need: by kind and subject the latest one,
// which links to the earlier ones.
type subjects [NumKinds]map[string]*Decision

// link inserts a decision among the decisions on its subject, by offset. If it is the latest, link
// returns the one before it.
func (s *subjects) link(d *Decision) (former *Decision) {
	bySubject := s[d.Kind]
	if bySubject == nil {
		bySubject = map[string]*Decision{}
		s[d.Kind] = bySubject
	}
	at := bySubject[string(d.Subject)]
	if at == nil || !d.less(at) {
		d.before = at
		bySubject[string(d.Subject)] = d
		return at
	}
	for at.before != nil && d.less(at.before) {
		at = at.before
	}
	d.before, at.before = at.before, d
	return nil
}

// unlink reverses link.
func (s *subjects) unlink(d *Decision) {
	bySubject := s[d.Kind]
	at := bySubject[string(d.Subject)]
	switch {
	case at == d && d.before == nil:
		delete(bySubject, string(d.Subject))
	case at == d:
		bySubject[string(d.Subject)] = d.before
	default:
		for at.before != d {
			at = at.before
		}
		at.before = d.before
	}
	d.before = nil
}

// Latest returns the last decision about a subject; nil without one.
func (s *subjects) Latest(k Kind, subject []byte) *Decision {
	if k >= NumKinds {
		return nil
	}
	return s[k][string(subject)]
}

// InForce returns the last decision about a subject that takes effect before the record at
// offset or earlier; nil without one.
func (s *subjects) InForce(k Kind, subject []byte, offset int64) *Decision {
	d := s.Latest(k, subject)
	for d != nil && d.Offset > offset {
		d = d.before
	}
	return d
}

// Subjects returns the number of subjects with a decision of a kind that a replay may need.
func (s *subjects) Subjects(k Kind) int { return len(s[k]) }

// at returns the decision of the same kind, subject and offset.
func (s *subjects) at(d *Decision) *Decision {
	for e := s.Latest(d.Kind, d.Subject); e != nil; e = e.before {
		if e.Offset == d.Offset {
			return e
		}
	}
	return nil
}

// after returns the next decision of the subject.
func (s *subjects) after(d *Decision) (next *Decision) {
	for at := s[d.Kind][string(d.Subject)]; at != nil && at != d; at = at.before {
		next = at
	}
	return next
}

// overwritten reports whether a later decision has overwritten the record of this one:
// the log has one eviction of a key, and one decision at an offset.
func (s *subjects) overwritten(d *Decision) bool {
	next := s.after(d)
	return next != nil && (d.Kind == KindEviction || next.Offset == d.Offset)
}

// superseded returns the floor from which no replay needs the decision because of
// the next one of its subject.
func (s *subjects) superseded(d *Decision) int64 {
	if next := s.after(d); next != nil {
		return next.Offset + 1
	}
	return never
}
