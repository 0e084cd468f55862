package plan

import (
	"unsafe"

	"odradek/detectors"
)

// ModelPlace is where a model of the batch lies in a device's memory.
type ModelPlace struct {
	Model *detectors.Model
	In    detectors.Span // where tasks have it: Task.Model
	At    int            // its first byte in the device's memory for models
	// Upload says that it is not there yet: the plan brings it.
	Upload bool
}

// Upload is what is copied from the input to the memory for models before the launches,
// in bytes: struct Upload in lane.h.
type Upload struct{ From, To, Bytes uint64 }

// uploadBytes is what an Upload takes in a batch's memory.
const uploadBytes = int(unsafe.Sizeof(Upload{}))

// Models are the models that the plan of this round needs, none of them placed.
func (p *Planner) Models(b *detectors.Batch) (need []ModelPlace) {
	some := false
	b.Models(func(*detectors.Model, detectors.Span) { some = true })
	if !some {
		return nil
	}
	asked := map[uint32]bool{}
	for k := range p.segments {
		for i := p.segments[k].head; i >= 0; i = p.next[i] {
			if s := b.Tasks[i].Model; s.Len > 0 {
				asked[s.Off] = true
			}
		}
	}
	b.Models(func(m *detectors.Model, at detectors.Span) {
		if asked[at.Off] {
			need = append(need, ModelPlace{Model: m, In: at})
		}
	})
	return need
}

// modelBytes is what the models of the plan take behind its launches: a Span a task, the
// uploads, and what they bring.
func (p *Planner) modelBytes() (spans, uploads, content int) {
	if len(p.Places) == 0 {
		return 0, 0, 0
	}
	for i := range p.Places {
		if p.Places[i].Upload {
			uploads += uploadBytes
			content += Align(4 * len(p.Places[i].Model.Words()))
		}
	}
	return Align(8 * len(p.tasks)), Align(uploads), content
}

// writeModels writes what modelBytes has room for from byte at on: where each task's model
// lies among the device's, in words, and what is to be copied there.
func (p *Planner) writeModels(b *detectors.Batch, m *Memory, at int) {
	spans, uploads, _ := p.modelBytes()
	if spans == 0 {
		return
	}
	place := map[uint32]uint32{}
	to := at + spans + uploads
	list := View[Upload](m.Bytes, at+spans, uploads/uploadBytes)[:0] // as many as there are, or more: it is aligned
	for i := range p.Places {
		o := &p.Places[i]
		place[o.In.Off] = uint32(o.At / 4)
		if o.Upload {
			w := o.Model.Words()
			copy(View[uint32](m.Bytes, to, len(w)), w)
			list = append(list, Upload{uint64(to), uint64(o.At), uint64(4 * len(w))})
			to += Align(4 * len(w))
		}
	}
	of := View[detectors.Span](m.Bytes, at, len(p.tasks))
	for k, i := range p.order {
		of[k] = detectors.Span{}
		if s := b.Tasks[i].Model; s.Len > 0 {
			of[k] = detectors.Span{Off: place[s.Off], Len: s.Len}
		}
	}
	p.q.ModelsOff, p.q.UploadsOff, p.q.Uploads = uint64(at), uint32(spans), uint32(len(list))
}
