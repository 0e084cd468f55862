// Package plan turns a batch into a device's work: tasks into tiles and launches, a long plan
// into parts for several devices, and status words into the tasks of the next round. It is
// pure: a plan follows from the batch and the limits of a device (Planner.Shared and SMs), results from the batch alone. Each
// op's plan has a file of its own. The comment of package cuda has the path of a launch and explains how a batch is split
// over several devices.
package plan

import (
	"fmt"
	"slices"

	"odradek/detectors"
)

// Planner makes the plans by which a device executes a batch, one for each round. First Start, then in each round Assign and
// Write; a batch for several devices has a Planner for each part, which Cut or Divide fill after Assign. It is reused for
// other batches.
type Planner struct {
	// Shared is the shared memory in bytes that a block may have on each device, 0 for no limit; the class of a task depends
	// on it. SMs is the number of multiprocessors of the plan's device, 0 for the number of an H100; no result depends on it: a
	// large set or grid gets a number of blocks for each.
	Shared, SMs int
	First       int32        // the first task of the batch that may be in this plan: a part's begins later
	Models      []ModelPlace // that the plan's tasks read; ModelsOf lists them
	Narrowed    bool         // In and Out are copied from the plan's first task to its last alone: a part, see split.go, or few tasks
	Progress    Progress     // of the batch; a part has none
	Tasks       int          // the device's in this round
	Work        int64        // estimate of a device's time for the plan, ns; 0 in a part
	ReadsModels bool         // tasks of the batch read models
	Request     Request      // for the plan of this round, once it is written

	classes  classifier
	segments segments
	build    builder
	points   normaliser

	order   []int32 // batch index of each task in plan order
	chains  []chain
	later   int              // tasks of this plan in a later round
	repeats int              // how often the child may run the repeatable launches; 0: there are none
	outputs int              // numbers of the device's outputs
	params  []detectors.Span // of a narrowed plan
	rounds  []int32          // the batch's Progress.rounds
}

// Start begins the execution of a batch: all its tasks wait.
func (p *Planner) Start(b *detectors.Batch) {
	n, w, c := len(b.Tasks), &p.Progress, &p.classes
	w.places = slices.Grow(w.places[:0], n)[:n]
	clear(w.places)
	w.Left, w.Declined, w.forced, w.rounds = n, 0, nil, nil
	if c.index == nil {
		c.index = map[Class]int32{}
	}
	clear(c.index)
	c.serial++
	c.list, c.points, c.models, c.shared, c.in = c.list[:0], false, false, p.Shared, b.In
	p.Models = nil
}

// Assign finds a place for every task that is not done, and the segments of the device's tasks in this
// round. A task whose carry comes from a task that the CPU scores waits for another round, because whether the CPU or the device
// scores a task depends on that task alone.
func (p *Planner) Assign(b *detectors.Batch) {
	n, w, ss := len(b.Tasks), &p.Progress, &p.segments
	p.Tasks, p.rounds, w.CPU = 0, w.rounds, w.CPU[:0]
	p.classes.in, p.classes.last = b.In, nil
	ss.list, ss.waves, ss.cost, ss.longest = ss.list[:0], 0, 0, 0
	ss.segment, ss.next = slices.Grow(ss.segment[:0], n)[:n], slices.Grow(ss.next[:0], n)[:n]
	for i := range b.Tasks {
		if w.places[i] == done {
			continue
		}
		round := 1
		if w.rounds != nil {
			round += int(w.rounds[i])
		}
		class, cost := p.classes.classOf(b, i, round)
		if w.forced != nil && w.forced[i] {
			class = -1
		}
		from := Before(b, i)
		at := done
		if from >= 0 {
			at = w.places[from]
		}
		switch {
		case at == waiting, at == onCPU && class >= 0, at == onDevice && byOp[b.Tasks[from].Op].rounds > 0:
			w.places[i] = waiting
			continue
		case class < 0:
			w.places[i] = onCPU
			w.CPU = append(w.CPU, int32(i))
			continue
		}
		w.places[i] = onDevice
		p.Tasks++
		ss.next[i] = -1
		ss.cost += cost
		wave := int32(0)
		if at == onDevice {
			k := ss.segment[from]
			s := &ss.list[k]
			if s.class == class && s.last == from { // the task continues the segment
				ss.next[from], s.last = int32(i), int32(i)
				s.count++
				s.cost += cost
				ss.longest = max(ss.longest, s.cost)
				ss.segment[i] = k
				continue
			}
			if wave = s.wave; class <= s.class {
				wave++
			}
			ss.waves = max(ss.waves, wave)
		}
		ss.segment[i] = int32(len(ss.list))
		ss.list = append(ss.list, segment{class, wave, int32(i), int32(i), 1, cost})
		ss.longest = max(ss.longest, cost)
	}
	p.ReadsModels = p.classes.models
	// Copies are added to the arithmetic, since they overlap only among batches.
	p.Work = int64(ss.cost) + chainWeight*int64(ss.longest) + int64(4*(len(b.In)+len(b.Out)))/copyRate
}

// Write writes the plan of this round from byte at of the memory, with its status words at status, and
// returns where the next plan's begin. It writes nothing beyond m.Out: a larger end shows how much room
// is missing.
func (p *Planner) Write(b *detectors.Batch, m *Memory, at, status int) (end, statusEnd int) {
	n := p.Tasks
	tiles := Align(at + taskBytes*n)
	if tiles > m.Out {
		return tiles + 32*n, status
	}
	p.points.base, p.points.tiles = m.Out/4, tiles/4
	p.build.own = uint32((status - m.Out) / 4)
	p.schedule(b, View[Task](m.Bytes, at, n))
	if p.build.portions > 1 {
		status = m.Out + Align(4*int(p.build.own))
	}
	behind := Align(tiles + 16*len(p.build.tiles)) // copied with the plan
	launches := behind
	if p.Narrowed {
		launches = Align(behind + 4*p.paramsLen())
	}
	zeroes := launches + 32*len(p.build.launches)
	uploads := Align(zeroes + 8*len(p.build.zeroes))
	end = uploads
	if len(p.Models) > 0 {
		list, content := models(p.Models).uploadBytes()
		end = uploads + list + content
	}
	if end > m.Out {
		return end, status
	}
	copy(View[Tile](m.Bytes, tiles, len(p.build.tiles)), p.build.tiles)
	copy(View[Launch](m.Bytes, launches, len(p.build.launches)), p.build.launches)
	copy(View[Zeroed](m.Bytes, zeroes, len(p.build.zeroes)), p.build.zeroes)
	p.Request = Request{
		Batch: m.ID, Launches: uint32(len(p.build.launches)),
		InBytes: uint64(end), TasksOff: uint64(at), TilesOff: uint64(tiles), LaunchesOff: uint64(launches),
		OutOff: uint64(m.Out), OutBytes: uint64(status + 4*n - m.Out), StatusOff: uint64(status),
		Tasks: uint64(n), Later: p.later, ScratchBytes: p.build.scratchBytes,
		InTo: uint64(at), OutFrom: uint64(m.Out), OutTo: uint64(status),
		CopyOut: p.later > 0 || p.outputs != len(b.Out), // carries, gaps, and outputs of earlier rounds
		Rounds:  uint32(p.repeats), Zeroes: uint32(len(p.build.zeroes)), ZeroesOff: uint64(zeroes), UploadsOff: uint64(uploads),
	}
	if len(p.points.tasks) > 0 {
		p.Request.Room = p.points.room()
	}
	if p.Narrowed {
		p.narrow(b, m, behind)
	}
	if len(p.Models) > 0 {
		models(p.Models).writeUploads(m, uploads, &p.Request)
	}
	return end, Align(status + 4*n)
}

// schedule writes the device's tasks in plan order to tasks, which has room for all of them, and makes tiles
// and launches: class by class in each wave, chains by falling cost.
func (p *Planner) schedule(b *detectors.Batch, tasks []Task) {
	d := &p.build
	d.tasks, d.in, d.shared, d.sms = tasks, p.classes.in, p.classes.shared, p.SMs
	if d.sms <= 0 {
		d.sms = usualSMs
	}
	d.tiles, d.launches, d.launched, d.scratchBytes, d.zeroes = d.tiles[:0], d.launches[:0], 0, 0, d.zeroes[:0]
	p.order = p.order[:0]
	p.outputs, p.later, p.repeats = 0, 0, 0
	p.points.tasks = p.points.tasks[:0]
	if p.classes.points {
		p.points.launch(b, &p.segments, p.classes.list, &p.build)
	}
	points, divided, modelAt := len(p.points.tasks) > 0, p.build.portions > 1, map[uint32]uint32(nil)
	if len(p.Models) > 0 {
		modelAt = models(p.Models).words()
	}
	ss := &p.segments
	ss.sort(len(p.classes.list))
	for g := 0; g+1 < len(ss.groups); g++ {
		lo, hi := ss.groups[g], ss.groups[g+1]
		if lo == hi {
			continue
		}
		p.chains = p.chains[:0]
		for _, k := range ss.sorted[lo:hi] {
			s := &ss.list[k]
			p.chains = append(p.chains, chain{uint32(len(p.order)), s.count, s.cost})
			for i := s.head; i >= 0; i = ss.next[i] {
				t, from := &tasks[len(p.order)], &b.Tasks[i]
				*t = Task(*from)
				if points {
					p.points.setPoints(i, t)
				}
				if from.Model.Len > 0 {
					t.Model.Off = modelAt[from.Model.Off]
				}
				if from.After != 0 {
					t.After, t.Carry = 0, detectors.Span{}
					if before := Before(b, int(i)); before >= 0 {
						t.After, t.Carry = 1, b.Tasks[before].Next
					}
				}
				if p.rounds != nil && p.rounds[i] > 0 {
					t.After, t.Carry = 1, t.Next
					p.later++
				}
				if divided {
					p.build.moveOutputs(t)
				}
				p.outputs += int(t.Scores.Len + t.Next.Len + t.Detail.Len)
				p.order = append(p.order, i)
			}
		}
		c := p.classes.list[g%len(p.classes.list)]
		op, first := byOp[c.Op], len(p.build.launches)
		op.launches(c, &p.build, p.chains)
		if op.repeats {
			p.repeat(op, p.build.launches[first:], int(p.chains[0].first))
		}
		if p.build.launched != len(p.build.tiles) {
			panic(fmt.Sprintf("plan: tiles of %v without a launch", c))
		}
	}
}

// repeat lets the child repeat the launches of the tasks from first to the present end of the plan, as
// often as the task with the most rounds may.
func (p *Planner) repeat(op *opPlan, launches []Launch, first int) {
	left := op.rounds
	for _, i := range p.order[first:] {
		if p.rounds != nil {
			left = min(left, op.rounds-int(p.rounds[i]))
		}
	}
	for i := range launches {
		launches[i].FirstTask, launches[i].Tasks = uint32(first), uint32(len(p.order)-first)
	}
	if p.repeats == 0 || left < p.repeats {
		p.repeats = left
	}
}
