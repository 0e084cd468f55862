package detectors

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Model is an input that many tasks share, such as a reference set. It never changes,
// and its content is its identity: an executor may keep it beyond a batch.
type Model struct {
	words Words
	sum   [sha256.Size]byte
}

// NewModel returns the model of words, at least one, which must not change any more.
func NewModel(w Words) *Model {
	if len(w) == 0 {
		panic("detectors: a model without content")
	}
	h := sha256.New()
	var b [4096]byte
	for part := range slices.Chunk(w, len(b)/4) {
		for i, v := range part {
			binary.LittleEndian.PutUint32(b[4*i:], v)
		}
		h.Write(b[:4*len(part)])
	}
	m := &Model{words: w}
	h.Sum(m.sum[:0])
	return m
}

// Words returns the model's content.
func (m *Model) Words() Words { return m.words }

// Sum returns the SHA-256 of the content.
func (m *Model) Sum() [sha256.Size]byte { return m.sum }

// batchModel is a model of a batch, and the offset of its first word.
type batchModel struct {
	*Model
	at uint32
}

// modelAlign is the alignment of models among each other, in words.
const modelAlign = 64

// Model returns the span of a model among the batch's models, and adds the model if none has the same
// content. Spans count as if the models lay one after the other, each at a multiple of 256 bytes;
// nothing is copied.
func (b *Batch) Model(m *Model) Span {
	end := 0
	for _, o := range b.models {
		if o.Model == m || o.sum == m.sum {
			return Span{o.at, uint32(len(m.words))}
		}
		end = int(o.at) + (len(o.words)+modelAlign-1)/modelAlign*modelAlign
	}
	b.models = append(b.models, batchModel{m, uint32(end)})
	return Span{uint32(end), uint32(len(m.words))}
}

// Models calls f with each of the batch's models and its offset. Executors call it.
func (b *Batch) Models(f func(m *Model, at Span)) {
	for _, o := range b.models {
		f(o.Model, Span{o.at, uint32(len(o.words))})
	}
}

// modelAt returns the content of the model at s.
func (b *Batch) modelAt(s Span) Words {
	for i := range b.models {
		if b.models[i].at == s.Off {
			return b.models[i].words[:s.Len:s.Len]
		}
	}
	panic("detectors: a task with a model that its batch does not have")
}
