package schemas

import (
	"fmt"
	"testing"
)

// BenchmarkScreen is VALID and MISSING_IF of a value, of which none is rejected.
func BenchmarkScreen(b *testing.B) {
	const fields = 8
	for _, what := range []string{"valid", "missing_if", "both"} {
		b.Run(what, func(b *testing.B) {
			m, values := Mapping{Time: "t"}, make([]float64, fields)
			for i := range fields {
				name := fmt.Sprint("v", i)
				m.Fields, values[i] = append(m.Fields, name), float64(i)
				if what != "missing_if" {
					m.Valid = append(m.Valid, name+"=-40..150")
				}
				if what != "valid" {
					m.MissingIf = append(m.MissingIf, name+"=-9999|6553.5")
				}
			}
			screen := m.Screen()
			b.ReportAllocs()
			for b.Loop() {
				screen(values)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/fields, "ns/value")
		})
	}
}
