package cycle

import (
	"os"
	"strings"
	"testing"
)

// TestOutputs holds that each row is whole, that no two share a name or a setting, and
// that docs/outputs.md says what the topic holds.
func TestOutputs(t *testing.T) {
	page, err := os.ReadFile("../../docs/outputs.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range Outputs {
		o := &Outputs[i]
		if o.Name == "" || o.Setting == "" || o.Holds == "" || o.Doc == "" || o.write == nil {
			t.Errorf("row %d is not whole: %+v", i, *o)
		}
		if (o.LargestRecord > 0) != (o.Fix != "") {
			t.Errorf("%s: a largest record of %d, and the fix is %q", o.Name, o.LargestRecord, o.Fix)
		}
		if seen[o.Name] || seen[o.Setting] {
			t.Errorf("%s and %s are not this row's alone", o.Name, o.Setting)
		}
		seen[o.Name], seen[o.Setting] = true, true
		if !strings.Contains(string(page), "| `<group>-"+o.Name+"` | ") {
			t.Errorf("docs/outputs.md does not say what <group>-%s holds", o.Name)
		}
	}
}
