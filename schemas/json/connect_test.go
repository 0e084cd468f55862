package json

import (
	"bufio"
	"fmt"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"

	std "encoding/json"

	"odradek/schemas"
)

var nan = math.NaN()

// TestConnectDecimals reads records that org.apache.kafka:connect-json 3.9.0 has written (JsonConverter, with schemas.enable and
// without): a Decimal with its scale in front or in the mapping, and Debezium's VariableScaleDecimal. The numbers are Java's
// BigDecimals, rounded by math/big.
func TestConnectDecimals(t *testing.T) {
	f, err := os.Open("testdata/connect.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := map[bool]int{}
	nearest := func(text *string) []float64 {
		if text == nil {
			return []float64{nan}
		}
		r, _ := new(big.Rat).SetString(*text)
		v, _ := r.Float64()
		return []float64{v}
	}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c struct {
			Scale      int
			Price, Any *string
			Record     std.RawMessage
		}
		if err := std.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		var top map[string]std.RawMessage
		_ = std.Unmarshal(c.Record, &top)
		m := schemas.Mapping{Fields: []string{"payload.after.price", "payload.after.any"}, TextNumbers: c.Scale == 4}
		framed := top["payload"] != nil
		if !framed {
			m.Fields = []string{"after.price", "after.any"}
			m.Decimals = []string{fmt.Sprint("after.price=", c.Scale)}
		}
		r, err := decode(t, m, string(c.Record))
		want := append(nearest(c.Price), nearest(c.Any)...)
		if err != nil || !equal(r.Values, want) {
			t.Errorf("%s: %v %v, want %v", c.Record, r.Values, err, want)
		}
		n[framed]++
	}
	if n[true] < 10 || n[false] < 10 {
		t.Errorf("%d records with a schema, %d without", n[true], n[false])
	}
}

// TestDecimals: what is no decimal is a fault, and schemas that come in front by turns are told apart.
func TestDecimals(t *testing.T) {
	const schema = `{"type":"struct","fields":[{"field":"v","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"1"}},
		{"field":"x","type":"array","items":{"name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}}},
		{"field":"m","type":"map","values":{"name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"3"}}},
		{"field":"s","type":"string"}]}`
	for _, c := range []struct {
		fields, decimals, text string
		want                   []float64
		class, field           string
	}{
		{"payload.v", "", `{"schema":` + schema + `,"payload":{"v":"DA=="}}`, []float64{1.2}, "", ""},
		{"payload.v", "payload.v=3", ` {"payload" : {"v":"D\u0041=="} , "schema" : ` + schema + `}`, []float64{1.2}, "", ""},
		{"payload.x[2]", "", `{"schema":` + schema + `,"payload":{"x":["DA==",null]}}`, []float64{0.12, nan}, "", ""},
		{"payload.m.k", "", `{"schema":` + schema + `,"payload":{"m":{"k":"DA=="}}}`, []float64{0.012}, "", ""},
		{"payload.v", "", `{"schema":` + schema + `,"payload":{"v":""}}`, []float64{nan}, "", ""},
		{"payload.s", "", `{"schema":` + schema + `,"payload":{"s":"DA=="}}`, nil, schemas.ClassBadType, "payload.s"},
		{"payload.v", "", `{"schema":"none","payload":{"v":"DA=="}}`, nil, schemas.ClassBadType, "payload.v"},
		{"payload.v", "", `{"schema":` + schema + `,"payload":{"v":"1.2"}}`, nil, schemas.ClassMalformed, "payload.v"},
		{"payload.v", "payload.v=-2", `{"schema":null,"payload":{"v":"DA=="}}`, []float64{1200}, "", ""},
		{"v", "v=1", `{"v":"DA=="}`, []float64{1.2}, "", ""},
		{"v", "v=1", `{"v":1.5}`, []float64{1.5}, "", ""},
		{"v", "v=1", `{"v":"DA==","v":"DA=="}`, nil, schemas.ClassMalformed, "v"},
		{"v", "", `{"v":{"value":"DA==","scale":1}}`, []float64{1.2}, "", ""},
		{"v", "", `{"v":{ "scale" : -1 , "value" : "DA\u003d=" } }`, []float64{120}, "", ""},
		{"v w", "", `{"v":{"scale":1,"value":"DA=="},"w":2}`, []float64{1.2, 2}, "", ""},
		{"v", "", `{"v":{"scale":1}}`, nil, schemas.ClassBadType, "v"},
		{"v", "", `{"v":{"value":"DA=="}}`, nil, schemas.ClassBadType, "v"},
		{"v", "", `{"v":{"scale":1.5,"value":"DA=="}}`, nil, schemas.ClassBadType, "v"},
		{"v", "", `{"v":{"scale":1,"value":"DA==","x":1}}`, nil, schemas.ClassBadType, "v"},
		{"v", "", `{"v":{"scale":1,"scale":2,"value":"DA=="}}`, nil, schemas.ClassBadType, "v"},
		{"v", "", `{"v":{"scale":1,"value":7}}`, nil, schemas.ClassBadType, "v"},
		{"v", "", `{"v":{"scale":-400,"value":"DA=="}}`, nil, schemas.ClassInfinite, "v"},
		{"v", "", `{"v":{"scale":99999,"value":"DA=="}}`, nil, schemas.ClassTooLarge, "v"},
		{"v.scale", "", `{"v":{"scale":1,"value":"DA=="}}`, []float64{1}, "", ""},
	} {
		m := schemas.Mapping{Fields: strings.Fields(c.fields)}
		if c.decimals != "" {
			m.Decimals = []string{c.decimals}
		}
		r, err := decode(t, m, c.text)
		if c.class != "" {
			wantClass(t, c.text, err, c.class, c.field)
		} else if err != nil || !equal(r.Values, c.want) {
			t.Errorf("%s: %v %v, want %v", c.text, r.Values, err, c.want)
		}
	}

	p := compile(t, schemas.Mapping{Fields: []string{"payload.v"}})
	var r schemas.Reading
	for i, scale := range []string{"1", "2", "1", "3"} {
		text := `{"schema":{"fields":[{"field":"v","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"` + scale +
			`"}}]},"payload":{"v":"DA=="}}`
		if err := p.Decode([]byte("k"), []byte(text), 5, &r); err != nil || r.Values[0] != []float64{1.2, 0.12, 1.2, 0.012}[i] {
			t.Errorf("scale %s: %v %v", scale, r.Values, err)
		}
	}
}
