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

// ModelsOf returns the models that the plan of this round needs, without places.
func (p *Planner) ModelsOf(b *detectors.Batch) (need []ModelPlace) {
	asked := map[uint32]bool{}
	for k := range p.segments.list {
		for i := p.segments.list[k].head; i >= 0; i = p.segments.next[i] {
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

// models are the models of a plan with their places on the device that it is for.
type models []ModelPlace

// words returns the first word of each model in the device's memory, by the model's offset among the batch's.
func (ms models) words() map[uint32]uint32 {
	if len(ms) == 0 {
		return nil
	}
	words := make(map[uint32]uint32, len(ms))
	for i := range ms {
		words[ms[i].In.Off] = uint32(ms[i].At / 4)
	}
	return words
}

// uploadBytes returns the bytes after the plan's launches that its new models take: the
// list of uploads and their content.
func (ms models) uploadBytes() (list, content int) {
	for i := range ms {
		if ms[i].Upload {
			list += int(unsafe.Sizeof(Upload{}))
			content += Align(4 * len(ms[i].Model.Words()))
		}
	}
	return Align(list), content
}

// writeUploads writes the list and the content that uploadBytes measures from byte at on.
func (ms models) writeUploads(m *Memory, at int, q *Request) {
	room, _ := ms.uploadBytes()
	to, n := at+room, 0
	list := View[Upload](m.Bytes, at, room/int(unsafe.Sizeof(Upload{}))) // at least as many as there are, since it is aligned
	for i := range ms {
		o := &ms[i]
		if o.Upload {
			w := o.Model.Words()
			copy(View[uint32](m.Bytes, to, len(w)), w)
			list[n] = Upload{uint64(to), uint64(o.At), uint64(4 * len(w))}
			to += Align(4 * len(w))
			n++
		}
	}
	q.Models, q.Uploads, q.UploadsOff = uint32(len(ms)), uint32(n), uint64(at)
}
