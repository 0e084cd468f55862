// Package plan turns a batch into a device's work: tasks into tiles and launches, a long plan
// into parts for several devices, and status words into the tasks of the next round. It is
// pure: a plan follows from the batch and a Device, results from the batch alone. Each op's
// plan has a file of its own. The path of a launch is in package cuda.
package plan

import (
	"fmt"

	"odradek/detectors"
)

// Planner makes the plans of one batch's Execute: see doc.go. It is reused.
type Planner struct {
	classifier
	progress
	segments
	builder
	models
	points normaliser

	round   int
	order   []int32 // batch index of each task in plan order
	chains  []chain
	later   int              // tasks of this plan in a later round
	repeats int              // how often the child may run the repeatable launches; 0: there are none
	outputs int              // numbers of the device's outputs
	part    bool             // of a batch that is split: see split.go
	params  []detectors.Span // of a part's tasks
	q       Request          // the request for this round's plan
}

// Start begins an Execute.
func (p *Planner) Start(b *detectors.Batch) {
	n := len(b.Tasks)
	p.classifier.begin()
	p.progress.begin(n)
	p.segments.begin(n)
	p.Places, p.round = nil, 0
}

// Assign finds a place for every task that is not done, and the segments of the device's tasks in this
// round. A task waits for another round where the CPU has to score the task before it first, because
// the side that scores a task depends on that task alone.
func (p *Planner) Assign(b *detectors.Batch) {
	p.round++
	p.words, p.last = b.In, nil
	p.cpu = p.cpu[:0]
	p.segments.clear()
	for i := range b.Tasks {
		if p.places[i] == done {
			continue
		}
		var class int32
		var cost int
		if p.rounds == nil || p.rounds[i] == 0 {
			class, cost = p.classOf(&b.Tasks[i])
		} else {
			class, cost = p.classAgain(b, i, int(p.rounds[i])+1)
		}
		if p.forced != nil && p.forced[i] {
			class = -1
		}
		from := Before(b, i)
		at := done
		if from >= 0 {
			at = p.places[from]
		}
		switch {
		case at == waiting, at == onCPU && class >= 0, at == onDevice && byOp[b.Tasks[from].Op].rounds > 0:
			p.places[i] = waiting
		case class < 0:
			p.places[i] = onCPU
			p.cpu = append(p.cpu, int32(i))
		default:
			p.places[i] = onDevice
			p.add(int32(i), class, cost, from, at == onDevice)
		}
	}
}

// Request returns the request for this round's plan, once it is written.
func (p *Planner) Request() *Request { return &p.q }

// Write writes the plan of this round from byte at of the memory, with its status words at status, and
// returns where the next plan's begin. It writes nothing beyond m.Out: a larger end shows how much room
// is missing.
func (p *Planner) Write(b *detectors.Batch, m *Memory, at, status int) (end, statusEnd int) {
	n := p.Device()
	tiles := Align(at + taskBytes*n)
	if tiles > m.Out {
		return tiles + 32*n, status
	}
	p.points.base, p.points.tiles = m.Out/4, tiles/4
	p.placeModels()
	p.own = uint32((status - m.Out) / 4)
	p.lay(b, View[Task](m.Bytes, at, n))
	if p.Divided() {
		status = m.Out + Align(4*int(p.own))
	}
	behind := Align(tiles + 16*len(p.tiles)) // copied with the plan
	launches := behind
	if p.part {
		launches = Align(behind + 4*p.paramsLen())
	}
	zeroes := launches + 32*len(p.launches)
	uploads := Align(zeroes + 8*len(p.zeroes))
	list, content := p.uploadBytes()
	end = uploads + list + content
	if end > m.Out {
		return end, status
	}
	copy(View[Tile](m.Bytes, tiles, len(p.tiles)), p.tiles)
	copy(View[Launch](m.Bytes, launches, len(p.launches)), p.launches)
	copy(View[Zeroed](m.Bytes, zeroes, len(p.zeroes)), p.zeroes)
	p.q = Request{
		Batch: m.ID, Launches: uint32(len(p.launches)),
		InBytes: uint64(end), TasksOff: uint64(at), TilesOff: uint64(tiles), LaunchesOff: uint64(launches),
		OutOff: uint64(m.Out), OutBytes: uint64(status + 4*n - m.Out), StatusOff: uint64(status),
		Tasks: uint64(n), Later: p.later, ScratchBytes: p.scratchBytes,
		InTo: uint64(at), OutFrom: uint64(m.Out), OutTo: uint64(status),
		CopyOut: p.later > 0 || p.outputs != len(b.Out), // carries, gaps, and outputs of earlier rounds
		Rounds:  uint32(p.repeats), Zeroes: uint32(len(p.zeroes)), ZeroesOff: uint64(zeroes), Room: p.points.room(),
	}
	if p.part {
		p.narrow(b, m, behind)
	}
	p.writeUploads(m, uploads, &p.q)
	return end, Align(status + 4*n)
}

// lay writes the device's tasks in plan order to tasks, which has room for all of them, and makes tiles
// and launches: class by class in each wave, chains by falling cost.
func (p *Planner) lay(b *detectors.Batch, tasks []Task) {
	p.builder.begin(tasks, p.words, p.Shared)
	p.order = p.order[:0]
	p.outputs, p.later, p.repeats = 0, 0, 0
	p.points.launch(b, &p.segments, p.classes, &p.builder)
	p.sort(len(p.classes))
	for g := 0; g+1 < len(p.groups); g++ {
		lo, hi := p.groups[g], p.groups[g+1]
		if lo == hi {
			continue
		}
		p.chains = p.chains[:0]
		for _, k := range p.sorted[lo:hi] {
			s := &p.list[k]
			p.chains = append(p.chains, chain{uint32(len(p.order)), s.count, s.cost})
			for i := s.head; i >= 0; i = p.next[i] {
				t, of := &p.tasks[len(p.order)], &b.Tasks[i]
				*t = Task(*of)
				p.points.setPoints(i, t)
				if of.Model.Len > 0 {
					t.Model.Off = p.modelAt[of.Model.Off]
				}
				if of.After != 0 {
					t.After, t.Carry = 0, detectors.Span{}
					if from := Before(b, int(i)); from >= 0 {
						t.After, t.Carry = 1, b.Tasks[from].Next
					}
				}
				if p.rounds != nil && p.rounds[i] > 0 {
					t.After, t.Carry = 1, t.Next
					p.later++
				}
				if p.Divided() {
					p.moveOutputs(t)
				}
				p.outputs += int(t.Scores.Len + t.Next.Len + t.Detail.Len)
				p.order = append(p.order, i)
			}
		}
		c := p.classes[g%len(p.classes)]
		op, first := byOp[c.Op], len(p.launches)
		op.launches(c, &p.builder, p.chains)
		if op.repeats {
			p.repeat(op, p.launches[first:], int(p.chains[0].first))
		}
		if p.launched != len(p.tiles) {
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
