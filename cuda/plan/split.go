package plan

import (
	"slices"

	"odradek/detectors"
)

// Cut splits a batch between tasks: each part, the plan of one device, has the tasks of this round from its First up to the First
// of the next part, at similar cost. (Divide instead splits the work inside tasks.) Tasks that are linked by their carries stay
// in one part; it returns false where therefore the batch cannot be split.
func (p *Planner) Cut(b *detectors.Batch, parts []*Planner) bool {
	// Backwards: a part may begin with task i if no task from i on has its carry from an earlier task.
	ss, places := &p.segments, p.Progress.places
	share := (ss.cost + len(parts) - 1) / len(parts)
	k, cost := len(parts)-1, 0
	low := int32(len(b.Tasks))
	for i := len(b.Tasks) - 1; i > 0 && k > 0; i-- {
		if places[i] != onDevice {
			continue
		}
		if from := Before(b, i); from >= 0 && places[from] == onDevice {
			low = min(low, from)
		}
		s := &ss.list[ss.segment[i]]
		if cost += s.cost / int(s.count); cost >= share && low >= int32(i) {
			parts[k].First = int32(i)
			k--
			cost = 0
		}
	}
	if k > 0 {
		return false
	}
	parts[0].First = 0
	for _, t := range parts {
		t.prepare(p)
	}
	for i := range ss.list { // by the index of their first task
		s := &ss.list[i]
		for k+1 < len(parts) && s.head >= parts[k+1].First {
			k++
		}
		t := parts[k]
		t.Tasks += int(s.count)
		t.segments.list = append(t.segments.list, *s)
	}
	return !slices.ContainsFunc(parts, func(t *Planner) bool { return t.Tasks == 0 })
}

// prepare makes p an empty part of the plan whole.
func (p *Planner) prepare(whole *Planner) {
	p.Narrowed, p.Shared, p.Tasks, p.Models, p.rounds = true, whole.Shared, 0, nil, whole.rounds
	w := &whole.classes
	p.classes.list, p.classes.in, p.classes.shared, p.classes.points, p.classes.models = w.list, w.in, w.shared, w.points, w.models
	p.segments.next, p.segments.waves = whole.segments.next, whole.segments.waves
	p.segments.list = p.segments.list[:0]
	p.build.portion, p.build.portions = 0, 0
}

// paramsLen returns the length of the parameters of the plan's tasks. A narrowed plan copies them, because they
// lie at the start of the batch's arena, far from its other input.
func (p *Planner) paramsLen() (n int) {
	p.params = p.params[:0]
	last := detectors.Span{Off: ^uint32(0)}
	for i := range p.build.tasks {
		if s := p.build.tasks[i].Params; s != last && int(s.Off) < len(p.classes.in) { // parameters of normalised points lie in the plan
			if last = s; !slices.Contains(p.params, s) {
				p.params = append(p.params, s)
				n += int(s.Len+3) &^ 3
			}
		}
	}
	return n
}

// narrow copies a narrowed plan's parameters to byte at, and limits its In and Out to the range of its tasks.
func (p *Planner) narrow(b *detectors.Batch, m *Memory, at int) {
	moved := make([]uint32, len(p.params))
	to := at / 4
	for k, s := range p.params {
		moved[k] = uint32(to)
		copy(View[uint32](m.Bytes, 4*to, int(s.Len)), b.In[s.Off:s.Off+s.Len])
		to += int(s.Len+3) &^ 3
	}
	const none = ^uint32(0)
	in, out := detectors.Span{Off: none}, detectors.Span{Off: none} // Len is the end
	cover := func(c *detectors.Span, s detectors.Span) {
		if s.Len > 0 {
			c.Off, c.Len = min(c.Off, s.Off), max(c.Len, s.Off+s.Len)
		}
	}
	k, last := -1, detectors.Span{Off: none}
	for i := range p.build.tasks {
		t := &p.build.tasks[i]
		if int(t.Params.Off) >= len(p.classes.in) { // of normalised points: the rows that these are made of
			cover(&in, b.Tasks[p.order[i]].XWords())
		} else {
			if t.Params != last {
				last = t.Params
				k = slices.Index(p.params, last)
			}
			t.Params.Off = moved[k]
			cover(&in, (*detectors.Task)(t).XWords())
		}
		cover(&in, t.Bins)
		if t.After == 0 {
			cover(&in, t.Carry)
		}
		cover(&out, t.Scores)
		cover(&out, t.Next)
		cover(&out, t.Detail)
	}
	q := &p.Request
	q.InFrom, q.InTo = 4*uint64(min(in.Off, in.Len)), 4*uint64(in.Len)
	q.OutFrom, q.OutTo = q.OutOff+4*uint64(min(out.Off, out.Len)), q.OutOff+4*uint64(out.Len)
	q.CopyOut = p.later > 0 || uint64(4*p.outputs) != q.OutTo-q.OutFrom
}

// Apart reports whether the ranges of the output that the devices copy back do not overlap, for any two parts. If two
// overlap, one device would overwrite results of the other.
func Apart(parts []*Planner) bool {
	for i, t := range parts {
		for _, o := range parts[:i] {
			if t.Request.OutFrom < o.Request.OutTo && o.Request.OutFrom < t.Request.OutTo {
				return false
			}
		}
	}
	return true
}
