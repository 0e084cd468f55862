package otlp

import (
	std "encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"odradek/schemas/expression"
)

// The messages in JSON, as far as they are read.
type (
	jsonRequest struct {
		ResourceMetrics []jsonResourceMetrics `json:"resourceMetrics"`
	}
	jsonResourceMetrics struct {
		Resource struct {
			Attributes []jsonAttribute `json:"attributes"`
		} `json:"resource"`
		ScopeMetrics []jsonScopeMetrics `json:"scopeMetrics"`
	}
	jsonScopeMetrics struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Metrics []jsonMetric `json:"metrics"`
	}
	jsonMetric struct {
		Name        string    `json:"name"`
		Unit        string    `json:"unit"`
		Gauge       *jsonData `json:"gauge"`
		Sum         *jsonData `json:"sum"`
		Histogram   *jsonData `json:"histogram"`
		Exponential *jsonData `json:"exponentialHistogram"`
		Summary     *jsonData `json:"summary"`
	}
	jsonData struct {
		DataPoints  []jsonPoint `json:"dataPoints"`
		Temporality quoted      `json:"aggregationTemporality"`
		Monotonic   bool        `json:"isMonotonic"`
	}
	jsonPoint struct {
		Attributes []jsonAttribute `json:"attributes"`
		Time       quoted          `json:"timeUnixNano"`
		AsDouble   quoted          `json:"asDouble"`
		AsInt      quoted          `json:"asInt"`
		Count      quoted          `json:"count"`
		Sum        quoted          `json:"sum"`
		Flags      quoted          `json:"flags"`
	}
	jsonAttribute struct {
		Key   string `json:"key"`
		Value struct {
			String *string        `json:"stringValue"`
			Bool   *bool          `json:"boolValue"`
			Int    quoted         `json:"intValue"`
			Double quoted         `json:"doubleValue"`
			Bytes  *[]byte        `json:"bytesValue"`
			Array  std.RawMessage `json:"arrayValue"`
			List   std.RawMessage `json:"kvlistValue"`
		} `json:"value"`
	}
)

// quoted is a number with or without quotes, as JSON of Protobuf has both; "" where there is none.
type quoted string

// UnmarshalJSON implements encoding/json's Unmarshaler.
func (q *quoted) UnmarshalJSON(b []byte) error {
	if *q = quoted(b); len(b) > 1 && b[0] == '"' {
		*q = quoted(b[1 : len(b)-1])
	} else if string(b) == "null" {
		*q = ""
	}
	return nil
}

var errNumber = errors.New("a number is expected")

// float returns the number, which may be NaN or Infinity.
func (q quoted) float() (float64, error) {
	f, err := strconv.ParseFloat(string(q), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errNumber
	}
	return f, nil
}

// int returns a whole number, which may be written with a fraction or an exponent; 0 where there is none.
func (q quoted) int() (int64, error) {
	if q == "" {
		return 0, nil
	}
	if i, err := strconv.ParseInt(string(q), 10, 64); err == nil {
		return i, nil
	}
	if f, err := strconv.ParseFloat(string(q), 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f), nil
	}
	return 0, errNumber
}

// uint returns a whole number that is not negative; 0 where there is none.
func (q quoted) uint() (uint64, error) {
	if u, err := strconv.ParseUint(string(q), 10, 64); err == nil {
		return u, nil
	}
	i, err := q.int()
	if i < 0 {
		err = errNumber
	}
	return uint64(i), err
}

func (w *walk) json(body []byte) error {
	var r jsonRequest
	if err := std.Unmarshal(body, &r); err != nil {
		var s *std.SyntaxError
		if errors.As(err, &s) {
			return fmt.Errorf("no JSON at byte %d", s.Offset)
		}
		var u *std.UnmarshalTypeError
		if errors.As(err, &u) {
			return fmt.Errorf("%s is %s at byte %d", u.Field, u.Value, u.Offset)
		}
		return errNumber
	}
	for i := range r.ResourceMetrics {
		rm := &r.ResourceMetrics[i]
		w.clearLevel(levelResource)
		if err := w.attributes(levelResource, rm.Resource.Attributes); err != nil {
			return err
		}
		for j := range rm.ScopeMetrics {
			sm := &rm.ScopeMetrics[j]
			w.clearLevel(levelScope)
			w.set(levelScope, []byte(pathScope), textOf([]byte(sm.Scope.Name)))
			for k := range sm.Metrics {
				if err := w.jsonMetric(&sm.Metrics[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *walk) jsonMetric(x *jsonMetric) error {
	m := metric{name: []byte(x.Name), unit: []byte(x.Unit)}
	var data *jsonData
	for _, member := range []struct {
		kind kind
		data *jsonData
	}{{kindGauge, x.Gauge}, {kindSum, x.Sum}, {kindHistogram, x.Histogram}, {kindExponential, x.Exponential}, {kindSummary, x.Summary}} {
		if member.data != nil && data == nil {
			m.kind, data = member.kind, member.data
		}
	}
	if data == nil {
		return nil
	}
	switch m.monotonic = data.Monotonic; data.Temporality {
	case "AGGREGATION_TEMPORALITY_DELTA", "1":
		m.temporality = delta
	case "AGGREGATION_TEMPORALITY_CUMULATIVE", "2":
		m.temporality = cumulative
	}
	w.startMetric(&m)
	for i := range data.DataPoints {
		if err := w.jsonPoint(&m, &data.DataPoints[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) jsonPoint(m *metric, x *jsonPoint) (err error) {
	w.clearLevel(levelPoint)
	if err := w.attributes(levelPoint, x.Attributes); err != nil {
		return err
	}
	p := point{value: math.NaN(), total: x.Sum != "" || m.kind == kindSummary}
	var wrong [6]error
	p.time, wrong[0] = x.Time.uint()
	p.flags, wrong[1] = x.Flags.uint()
	if x.AsDouble != "" {
		p.value, wrong[2] = x.AsDouble.float()
	} else if x.AsInt != "" {
		var i int64
		i, wrong[3] = x.AsInt.int()
		p.value = float64(i)
	}
	var n uint64
	n, wrong[4] = x.Count.uint()
	if p.count = float64(n); x.Sum != "" {
		p.sum, wrong[5] = x.Sum.float()
	}
	for _, err := range wrong {
		if err != nil {
			return err
		}
	}
	return w.add(m, &p)
}

func (w *walk) attributes(l level, list []jsonAttribute) error {
	for i := range list {
		a := &list[i]
		name := []byte(a.Key)
		if !w.wants(l, name) {
			continue
		}
		var part expression.Operand
		switch v := &a.Value; {
		case v.String != nil:
			part = textOf([]byte(*v.String))
		case v.Bool != nil:
			part = boolOf(*v.Bool)
		case v.Bytes != nil:
			part = textOf(*v.Bytes)
		case v.Int != "":
			n, err := v.Int.int()
			if err != nil {
				return err
			}
			part = intOf(n)
		case v.Double != "":
			f, err := v.Double.float()
			if err != nil {
				return err
			}
			part = floatOf(f)
		case v.Array != nil, v.List != nil:
			part.Kind = expression.Null
		}
		w.set(l, name, part)
	}
	return nil
}
