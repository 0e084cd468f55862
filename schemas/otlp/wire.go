package otlp

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"odradek/schemas/expression"
)

// field is a field of a message off the wire: bits, or bytes.
type field struct {
	number protowire.Number
	typ    protowire.Type
	bits   uint64
	bytes  []byte
}

// is reports whether the field has a number and its wire type; one of another type is unknown.
func (f *field) is(number protowire.Number, typ protowire.Type) bool {
	return f.number == number && f.typ == typ
}

// next reads the next field of a message.
func next(b []byte) (f field, rest []byte, err error) {
	var n int
	if f.number, f.typ, n = protowire.ConsumeTag(b); n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	b = b[n:]
	switch f.typ {
	case protowire.VarintType:
		f.bits, n = protowire.ConsumeVarint(b)
	case protowire.Fixed64Type:
		f.bits, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		f.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(f.number, f.typ, b)
	}
	if n < 0 {
		return f, nil, protowire.ParseError(n)
	}
	return f, b[n:], nil
}

// each calls read for each field of a message that has a number and contains a message.
func each(b []byte, number protowire.Number, read func(b []byte) error) error {
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		if b = rest; f.is(number, protowire.BytesType) {
			if err := read(f.bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walk) request(b []byte) error { return each(b, 1, w.resourceMetrics) }

// resourceMetrics reads the resource first, which may stand behind the metrics.
func (w *walk) resourceMetrics(b []byte) error {
	w.clearLevel(levelResource)
	err := each(b, 1, func(b []byte) error {
		return each(b, 1, func(b []byte) error { return w.attribute(levelResource, b) })
	})
	if err != nil {
		return err
	}
	return each(b, 2, w.scopeMetrics)
}

func (w *walk) scopeMetrics(b []byte) error {
	w.clearLevel(levelScope)
	var name []byte
	err := each(b, 1, func(b []byte) error {
		return each(b, 1, func(text []byte) error {
			name = text
			return nil
		})
	})
	if err != nil {
		return err
	}
	w.set(levelScope, []byte(pathScope), textOf(name))
	return each(b, 2, w.metric)
}

// metric reads a metric: of its data the last member, whose occurrences are merged.
func (w *walk) metric(b []byte) error {
	var m metric
	var room [4][]byte
	data := room[:0]
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		if f.typ != protowire.BytesType {
			continue
		}
		switch f.number {
		case 1:
			m.name = f.bytes
		case 3:
			m.unit = f.bytes
		case 5, 7, 9, 10, 11:
			if m.kind != kind(f.number) {
				m.kind, data = kind(f.number), data[:0]
			}
			data = append(data, f.bytes)
		}
	}
	for _, b := range data {
		for len(b) > 0 {
			f, rest, err := next(b)
			if err != nil {
				return err
			}
			switch b = rest; {
			case f.is(2, protowire.VarintType):
				m.temporality = uint64(uint32(f.bits))
			case f.is(3, protowire.VarintType):
				m.monotonic = f.bits != 0
			}
		}
	}
	w.startMetric(&m)
	for _, b := range data {
		if err := each(b, 1, func(b []byte) error { return w.point(&m, b) }); err != nil {
			return err
		}
	}
	return nil
}

// point reads a data point. The number of its attributes differs from kind to kind.
func (w *walk) point(m *metric, b []byte) error {
	numeric := m.kind == kindGauge || m.kind == kindSum
	attributes, flags := protowire.Number(7), protowire.Number(8)
	switch m.kind {
	case kindHistogram:
		attributes, flags = 9, 10
	case kindExponential:
		attributes, flags = 1, 10
	}
	w.clearLevel(levelPoint)
	p := point{value: math.NaN(), total: m.kind == kindSummary}
	for len(b) > 0 {
		f, rest, err := next(b)
		if err != nil {
			return err
		}
		switch b = rest; {
		case f.is(attributes, protowire.BytesType):
			if err := w.attribute(levelPoint, f.bytes); err != nil {
				return err
			}
		case f.is(flags, protowire.VarintType):
			p.flags = f.bits
		case f.typ != protowire.Fixed64Type:
		case f.number == 3:
			p.time = f.bits
		case f.number == 4 && numeric:
			p.value = math.Float64frombits(f.bits)
		case f.number == 6 && numeric:
			p.value = float64(int64(f.bits))
		case f.number == 4:
			p.count = float64(f.bits)
		case f.number == 5 && !numeric:
			p.sum, p.total = math.Float64frombits(f.bits), true
		}
	}
	return w.add(m, &p)
}

// attribute reads a KeyValue.
func (w *walk) attribute(l level, b []byte) error {
	var name []byte
	if err := each(b, 1, func(text []byte) error { name = text; return nil }); err != nil {
		return err
	}
	if !w.wants(l, name) {
		return nil
	}
	var part expression.Operand
	err := each(b, 2, func(b []byte) error {
		for len(b) > 0 {
			f, rest, err := next(b)
			if err != nil {
				return err
			}
			switch b = rest; {
			case f.is(1, protowire.BytesType), f.is(7, protowire.BytesType):
				part = textOf(f.bytes)
			case f.is(2, protowire.VarintType):
				part = boolOf(f.bits != 0)
			case f.is(3, protowire.VarintType):
				part = intOf(int64(f.bits))
			case f.is(4, protowire.Fixed64Type):
				part = floatOf(math.Float64frombits(f.bits))
			case f.is(5, protowire.BytesType), f.is(6, protowire.BytesType), f.is(8, protowire.VarintType):
				part.Kind = expression.Null // an array, a map or an index, which cannot be a part of a key
			}
		}
		return nil
	})
	if err == nil {
		w.set(l, name, part)
	}
	return err
}
