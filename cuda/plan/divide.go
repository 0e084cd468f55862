package plan

import (
	"odradek/detectors"
)

// A batch of a few long tasks cannot be cut into runs of tasks of similar cost. Where the ops of all its tasks can
// divide the work in a task, each device gets all tasks and does its portion of the work in each. A part writes the
// outputs of all tasks to a place of its own behind the batch's outputs; Merge makes the batch's outputs of them.

// wellCut is the least number of equal chains for each part with which Cut gives parts of similar cost.
const wellCut = 4

// Divide splits the work inside tasks, for a batch of a few long ones: each part, the plan of one device, has all tasks of this
// round and computes a portion of each. Merge combines the results. (Cut instead gives each part some of the tasks.) It
// returns false where the op of some task cannot divide its work, where there are enough tasks for Cut to give parts of similar
// cost, and where m has no room for the outputs of all parts.
func (p *Planner) Divide(b *detectors.Batch, m *Memory, parts []*Planner) bool {
	ss := &p.segments
	if ss.longest*wellCut*len(parts) < ss.cost {
		return false
	}
	for i := range ss.list {
		c := p.classes.list[ss.list[i].class]
		if op := byOp[c.Op]; op.divides == nil || !op.divides(c) {
			return false
		}
	}
	outputs := 0
	for i := range b.Tasks {
		t := &b.Tasks[i]
		outputs += int(t.Scores.Len + t.Next.Len + t.Detail.Len)
	}
	if len(parts)*(Align(4*outputs)+Align(4*len(b.Tasks))) > len(m.Bytes)-m.Out-Align(4*len(b.Out)) {
		return false
	}
	for k, t := range parts {
		t.First = 0
		t.prepare(p)
		t.Tasks, t.segments.list = p.Tasks, append(t.segments.list, ss.list...)
		t.build.portion, t.build.portions = k, len(parts)
	}
	return true
}

// moveOutputs moves the outputs of a task of a divided plan to the place of its part.
func (b *builder) moveOutputs(t *Task) {
	for _, s := range []*detectors.Span{&t.Scores, &t.Next, &t.Detail} {
		s.Off = b.own
		b.own += s.Len
	}
}

// Merge combines the outputs of the parts that Divide has made, after all devices have executed theirs: it reads them from m and
// writes the outputs of the batch's tasks. It returns the status words of the tasks, in the order of the tasks in each part's
// plan; a task is done if it is done in every part.
func Merge(b *detectors.Batch, m *Memory, parts []*Planner) []uint32 {
	status := View[uint32](m.Bytes, int(parts[0].Request.StatusOff), int(parts[0].Request.Tasks))
	for _, p := range parts[1:] {
		for k, s := range View[uint32](m.Bytes, int(p.Request.StatusOff), len(status)) {
			status[k] = max(status[k], s)
		}
	}
	out := detectors.Words(View[uint32](m.Bytes, m.Out, (len(m.Bytes)-m.Out)/4))
	wordsAt := func(s detectors.Span) detectors.Words { return out[s.Off:][:s.Len] }
	portions := make([]detectors.Result, len(parts))
	for k, i := range parts[0].order {
		if status[k] != StatusDone {
			continue
		}
		for j, p := range parts {
			t := &p.build.tasks[k]
			portions[j] = detectors.Result{Scores: wordsAt(t.Scores).F32(), Next: wordsAt(t.Next), Detail: wordsAt(t.Detail)}
		}
		t := &b.Tasks[i]
		merged := byOp[t.Op].merge(b.In[t.Params.Off:][:t.Params.Len], portions)
		copy(wordsAt(t.Scores).F32(), merged.Scores)
		copy(wordsAt(t.Detail), merged.Detail)
	}
	return status
}
