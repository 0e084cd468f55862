// Package toy reads records of the form "machine=press-1 temperature=71.4".
package toy

import (
	"bytes"
	"strconv"

	"odradek/schemas"
)

// Format is the row of the toy in the table of formats.
var Format = schemas.Format{
	Name: "toy", Type: "TOY", Title: "Toy", Plain: true,
	Compile: func(l *schemas.Layout, s *schemas.Schema) schemas.Program { return &program{l, s.ID} },
}

type program struct {
	layout *schemas.Layout
	id     int32
}

// Decode implements schemas.Program.
func (p *program) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	p.layout.Reset(out, p.id)
	out.Expect()
	for field := range bytes.FieldsSeq(body) {
		name, text, _ := bytes.Cut(field, []byte("="))
		for i := range p.layout.Sinks {
			sink := &p.layout.Sinks[i]
			if sink.Text != string(name) {
				continue
			}
			if sink.Role == schemas.RoleKey {
				out.KeyParts[sink.Slot] = schemas.KeyPart{Kind: schemas.KeyText, Text: text}
				continue
			}
			v, err := strconv.ParseFloat(string(text), 64)
			if err != nil {
				out.Fail(int32(i), schemas.FaultValueType)
			}
			out.Values[sink.Slot] = v
		}
	}
	out.FillMissing()
	return p.layout.Finish(key, timestampMs, out)
}
