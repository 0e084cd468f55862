package plan

import (
	"unsafe"

	"odradek/detectors"
)

// ModelPlace is the place of a model of the batch in a device's memory.
type ModelPlace struct {
	Model *detectors.Model
	In    detectors.Span // the tasks' Task.Model
	At    int            // its first byte in the device's memory for models
	// Upload reports that the model is not on the device yet, and the plan brings it.
	Upload bool
}

// Upload is a copy from the input to the memory for models before the launches, in bytes:
// struct Upload in lane.h.
type Upload struct{ From, To, Bytes uint64 }

// models has the models of a plan and their places on the device that it is for.
type models struct {
	Places  []ModelPlace      // of Models
	modelAt map[uint32]uint32 // by offset of a model among the batch's: its first word in the device's memory
}

// Models returns the models that the plan of this round needs, without places.
func (p *Planner) Models(b *detectors.Batch) (need []ModelPlace) {
	some := false
	b.Models(func(*detectors.Model, detectors.Span) { some = true })
	if !some {
		return nil
	}
	asked := map[uint32]bool{}
	for k := range p.list {
		for i := p.list[k].head; i >= 0; i = p.next[i] {
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

// placeModels records the places of the models for lay.
func (p *models) placeModels() {
	clear(p.modelAt)
	for i := range p.Places {
		if p.modelAt == nil {
			p.modelAt = map[uint32]uint32{}
		}
		p.modelAt[p.Places[i].In.Off] = uint32(p.Places[i].At / 4)
	}
}

// uploadBytes returns the bytes after the plan's launches that its new models take: the
// list of uploads and their content.
func (p *models) uploadBytes() (list, content int) {
	for i := range p.Places {
		if p.Places[i].Upload {
			list += int(unsafe.Sizeof(Upload{}))
			content += Align(4 * len(p.Places[i].Model.Words()))
		}
	}
	return Align(list), content
}

// writeUploads writes the list and the content that uploadBytes measures from byte at on.
func (p *models) writeUploads(m *Memory, at int, q *Request) {
	room, _ := p.uploadBytes()
	to, n := at+room, 0
	list := View[Upload](m.Bytes, at, room/int(unsafe.Sizeof(Upload{}))) // at least as many as there are, since it is aligned
	for i := range p.Places {
		o := &p.Places[i]
		if o.Upload {
			w := o.Model.Words()
			copy(View[uint32](m.Bytes, to, len(w)), w)
			list[n] = Upload{uint64(to), uint64(o.At), uint64(4 * len(w))}
			to += Align(4 * len(w))
			n++
		}
	}
	q.Models, q.Uploads, q.UploadsOff = uint32(len(p.Places)), uint32(n), uint64(at)
}
