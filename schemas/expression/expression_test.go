package expression

import (
	"math"
	"strings"
	"testing"
)

func operands(list ...Operand) *Operands { return &Operands{List: list} }

// TestFaults: what is wrong with an expression is named with its column and its types, before any record.
func TestFaults(t *testing.T) {
	kinds := map[string]Type{
		"raw": {Kind: Double}, "n": {Kind: Int}, "quality": {Kind: Text}, "ok": {Kind: Bool}, "maybe": {Kind: Double, Nullable: true},
		"name": {Kind: Text, Nullable: true}, "at": {Kind: Time}, "b": {Kind: Bytes}, "nil": {Kind: Null},
	}
	for _, c := range []struct {
		text  string
		value bool
		want  string // "": none
	}{
		{`quality in ["GOOD","UNCERTAIN"]`, false, ""},
		{`data.messageType == "NDATA" && tags["a-b"] != "x"`, false, ""},
		{`has(quality) && !(n > 2.5)`, false, ""},
		{`quality.startsWith("G") || quality.matches("^U.*")`, false, ""},
		{`maybe == null || maybe > 1.0`, false, ""},
		{`name == "x" && name != null`, false, ""},
		{`at > timestamp("2026-01-01T00:00:00Z") && at.getHours("Europe/Berlin") < 20`, false, ""},
		{`ok`, false, ""},
		{`anything`, false, ""},
		{`(raw - 32.0) * 5.0 / 9.0`, true, ""},
		{`maybe * 2.0`, true, ""},
		{`math.sqrt(raw * raw + maybe * maybe)`, true, ""},
		{`math.abs(n) + size(quality)`, true, ""},
		{`ok`, true, ""},
		{`ok ? raw : double(n)`, true, ""},
		{`dyn(quality)`, true, ""},

		{`quality = "GOOD"`, false, "column 9: Syntax error: token recognition error at: '= '"},
		{`quality in ["GOOD"`, false, "column 19: Syntax error"},
		{``, false, "column 1: Syntax error"},
		{`quality == 1`, false, `column 9: found no matching overload for '==' applied to '(string, int)'`},
		{`quality in [1, 2]`, false, `column 9: found no matching overload for 'in' applied to '(string, list(int))'`},
		{`raw - 32`, true, `column 5: found no matching overload for '-' applied to '(double, int)'; write 32.0 for a double`},
		{`maybe - 32`, true, `column 7: found no matching overload for '-' applied to '(double or null, int)'`},
		{`n + 1`, false, "it is of type int, not true or false (bool)"},
		{`name`, true, "it is of type string or null, not a number"},
		{`quality`, true, "it is of type string, not a number"},
		{`-quality`, true, `column 1: found no matching overload for '-' applied to '(string)'`},
		{`lower(quality) == "x"`, false, "column 6: undeclared reference to 'lower'"},
		{`[1].all(x, x > n)`, false, "column 8: undeclared reference to 'all'"},
		{`has(1)`, false, "column 4: has() asks for a field"},
		{`raw[0] > 1.0`, false, `column 4: found no matching overload for '[]'`},
		{`Message{a: 1} == null`, false, "column 8: a field is named as a"},
		{`ok ? 1 : "x"`, true, `column 4: found no matching overload for '?:'`},
	} {
		compile := Condition
		if c.value {
			compile = Value
		}
		e, err := compile(c.text)
		if err == nil {
			var list []Type
			for i := range e.Paths {
				list = append(list, kinds[e.Paths[i].String()])
			}
			err = e.Check(list)
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// TestHolds: conditions over values of every kind, and why one cannot be evaluated.
func TestHolds(t *testing.T) {
	text := func(s string) Operand { return Operand{Kind: Text, Text: []byte(s)} }
	for _, c := range []struct {
		text string
		a    Operand
		want string
	}{
		{`a in ["GOOD", "UNCERTAIN"]`, text("GOOD"), "true"},
		{`a in ["GOOD", "UNCERTAIN"]`, text("BAD"), "false"},
		{`a in ["GOOD", "UNCERTAIN"]`, Operand{Kind: Null}, "false"},
		{`a in ["GOOD", "UNCERTAIN"]`, Operand{}, "the record has no text, number, Boolean or time at a"},
		{`!has(a) || a == "GOOD"`, Operand{}, "true"},
		{`has(a)`, Operand{Kind: Null}, "false"},
		{`a == 192`, Operand{Kind: Double, Float: 192}, "true"},
		{`a in [192, 0]`, Operand{Kind: Double, Float: 192}, "true"},
		{`a in [192, 0]`, Operand{Kind: Int, Num: 1}, "false"},
		{`a >= 192`, Operand{Kind: Double, Float: 191.5}, "false"},
		{`a`, Operand{Kind: Bool, Num: 1}, "true"},
		{`a`, Operand{Kind: Null}, "it is null_type, not true or false"},
		{`a`, text("x"), "it is string, not true or false"},
		{`a > 1.0`, text("x"), "do not take these types"},
		{`a > 1.0`, Operand{Kind: Null}, "does not take these types: a is null"},
		{`10 / a > 1`, Operand{Kind: Int}, "division by zero"},
		{`a == timestamp("1970-01-01T00:00:01Z")`, Operand{Kind: Time, Num: 1e6}, "true"},
		{`a == b"xy"`, Operand{Kind: Bytes, Text: []byte("xy")}, "true"},
		{`a.size() == 2`, text("xy"), "true"},
		{`a == "x" || 1 / 0 > 0`, text("x"), "true"},
	} {
		e, err := Condition(c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		holds, err := e.Holds(operands(c.a))
		got := "false"
		if holds {
			got = "true"
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, strings.Replace(c.want, "do not", "does not", 1)) {
			t.Errorf("%s of %+v: %s, want %s", c.text, c.a, got, c.want)
		}
	}
}

// TestNumber: values that are computed, those that are missing, and why one cannot be computed.
func TestNumber(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		text string
		a    Operand
		want float64
		err  string
	}{
		{`(a - 32.0) * 5.0 / 9.0`, Operand{Kind: Double, Float: 212}, 100, ""},
		{`(a - 32.0) * 5.0 / 9.0`, Operand{Kind: Null}, nan, ""},
		{`a == null ? 7.0 : a`, Operand{Kind: Null}, 7, ""},
		{`a < 0.0 ? dyn(null) : a`, Operand{Kind: Double, Float: -1}, nan, ""},
		{`(a - 32.0) * 5.0 / 9.0`, Operand{}, 0, "the record has no"},
		{`(a - 32.0) * 5.0 / 9.0`, Operand{Kind: Int, Num: 3}, 0, "a is int"},
		{`double(a) / 2.0`, Operand{Kind: Int, Num: 3}, 1.5, ""},
		{`double(a)`, Operand{Kind: Text, Text: []byte("2.5")}, 2.5, ""},
		{`double(a)`, Operand{Kind: Text, Text: []byte("x")}, 0, "type conversion error"},
		{`a`, Operand{Kind: Bool, Num: 1}, 1, ""},
		{`a`, Operand{Kind: Text}, 0, "it is string, not a number"},
		{`1.0 / a`, Operand{Kind: Double}, 0, "infinite"},
		{`1 / a`, Operand{Kind: Int}, 0, "division by zero"},
		{`a * a`, Operand{Kind: Int, Num: 1 << 40}, 0, "overflow"},
		{`a`, Operand{Kind: Double, Float: nan}, nan, ""},
		{`math.greatest(a, 3.5)`, Operand{Kind: Double, Float: 2}, 3.5, ""},
	} {
		e, err := Value(c.text)
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		got, null, err := e.Number(operands(c.a))
		if null != strings.Contains(c.text, "dyn(null)") {
			t.Errorf("%s of %+v: null is %t", c.text, c.a, null)
		}
		if c.err == "" && (err != nil || got != c.want && (got == got || c.want == c.want)) ||
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s of %+v: %v, %v, want %v %s", c.text, c.a, got, err, c.want, c.err)
		}
	}
}

func BenchmarkCondition(b *testing.B) {
	for _, text := range []string{`a in ["GOOD","UNCERTAIN"]`, `a == "NDATA"`, `n > 3.0 && n < 5.0`} {
		b.Run(text, func(b *testing.B) {
			e, err := Condition(text)
			if err != nil {
				b.Fatal(err)
			}
			texts := [][]byte{[]byte("UNCERTAIN"), []byte("BAD")}
			o := operands(Operand{Kind: Text, Text: texts[0]})
			if e.Paths[0].Names[0] == "n" {
				o = operands(Operand{Kind: Double, Float: 4})
			}
			b.ReportAllocs()
			for i := range b.N {
				o.List[0].Text, o.List[0].Float = texts[i&1], float64(i&7)
				if _, err := e.Holds(o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
