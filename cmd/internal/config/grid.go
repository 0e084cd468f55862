package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/detectors"
	"odradek/detectors/scan"
	"odradek/processor"
	"odradek/processor/state/series"
)

// gridSettings make the samples of a detector of op scan events of a grid.
type gridSettings struct {
	Span   time.Duration `env:"GRID" envDefault:"0s" min:"0s" max:"8760h" ops:"scan" example:"1h" doc:"Event time over which samples are counted in a grid of WINDOW cells. 0: samples are the cells themselves. See docs/grids.md."`
	Stride time.Duration `env:"GRID_STRIDE" derived:"GRID: windows do not overlap" min:"0s" max:"8760h" ops:"scan" example:"15m" doc:"Event time from the end of a window to the end of the next; GRID is a multiple of it."`
	Box    []string      `env:"GRID_BOX" derived:"0,0,COLUMNS,rows: x and y are cells" ops:"scan" example:"8.4,47.3,8.6,47.5" doc:"Box that the grid covers: x0,y0,x1,y1 in the units of x and y. A sample outside is a dead letter."`
	Learn  int           `env:"GRID_LEARN" envDefault:"0" min:"0" max:"1000000" ops:"scan" example:"24" doc:"Least number of earlier strides to learn a cell's baseline from. 0: the baseline is the fourth of FIELDS, or the same for all cells."`
	MaxP   float64       `env:"MAX_P" live:"true" derived:"1; with GRID, where there are p-values, 0.01" min:"1e-9" max:"1" ops:"scan" example:"0.001" doc:"Largest p-value of a rectangle that can be an anomaly; THRESHOLD still bounds its score. 1: any."`
}

// gridMaxP is the default of MAX_P of a grid with p-values.
const gridMaxP = 0.01

// deriveGrid sets the defaults that a grid changes.
func deriveGrid(d *DetectorSettings, set func(name, value string)) {
	set("MAX_P", "1")
	if d.Grid.Span == 0 {
		return
	}
	set("STRIDE", "1")
	set("GRID_STRIDE", strconv.FormatInt(int64(d.Grid.Span), 10))
	set("THRESHOLD", "fixed:0")
	set("CLOSE_AFTER", "1")
	if least, ok := leastP(d); ok && least <= gridMaxP {
		set("MAX_P", strconv.FormatFloat(gridMaxP, 'g', -1, 64))
	}
}

// leastP returns the least p-value that a detector of op scan can find; false: it finds none.
func leastP(d *DetectorSettings) (float64, bool) {
	v := d.values(none)
	model := modelOf(v)
	replicates, _ := v["REPLICATES"].(int)
	if model < 0 || model > scan.ModelBernoulli || replicates == 0 {
		return 1, false
	}
	return 1 / float64(replicates+1), true
}

// modelOf returns the model of counts in the settings of op scan; below 0 for another op.
func modelOf(v detectors.Values) scan.OpModel {
	word, _ := v["MODEL"].(string)
	return scan.OpModel(slices.Index(scan.Models, word))
}

// gridOf returns the grid of a detector whose fields have these columns and names; nil for a detector without one.
func gridOf(d *DetectorSettings, columns []int, names []string) (*series.Grid, error) {
	if d.Grid.Span == 0 {
		return nil, nil
	}
	v := d.values(none)
	width, ok := v["COLUMNS"].(int)
	if d.Op != scan.Op.String() || !ok || width < 1 {
		return nil, fmt.Errorf("a grid is for op %s", scan.Op)
	}
	if len(columns) < 2 || len(columns) > 4 {
		return nil, fmt.Errorf("%d fields, a grid takes x, y and optionally a count and a baseline", len(columns))
	}
	g := &series.Grid{Columns: width, Rows: d.Window / width, X: columns[0], Y: columns[1], Count: -1, Baseline: -1,
		Span: d.Grid.Span.Microseconds(), Stride: d.Grid.Stride.Microseconds(), Learn: d.Grid.Learn, Signed: modelOf(v) == scan.ModelNormal}
	g.Box = [4]float64{0, 0, float64(g.Columns), float64(g.Rows)}
	copy(g.Fields[:], names)
	if len(columns) > 2 {
		g.Count = columns[2]
	}
	if len(columns) > 3 {
		g.Baseline = columns[3]
	}
	if box := cleanList(d.Grid.Box); len(box) > 0 {
		if len(box) != 4 {
			return nil, fmt.Errorf("%d numbers, a box has x0,y0,x1,y1", len(box))
		}
		for i, text := range box {
			var err error
			if g.Box[i], err = strconv.ParseFloat(text, 64); err != nil {
				return nil, fmt.Errorf("%q is not a number", text)
			}
		}
	}
	return g, nil
}

// grid checks the settings of a detector's grid.
func (ch *checker) grid(short string, d *DetectorSettings) {
	c := ch.c
	if !ch.ok(short+"GRID", short+"GRID_STRIDE", short+"GRID_BOX", short+"GRID_LEARN", short+"MAX_P", short+"WINDOW",
		short+"COLUMNS", short+"FIELDS", short+"OP") {
		return
	}
	if least, ok := leastP(d); d.Grid.MaxP < 1 && (!ok || least > d.Grid.MaxP) {
		fix := "use 1"
		if d.Op == scan.Op.String() {
			fix = fmt.Sprintf("use 1, or with MODEL=poisson or bernoulli REPLICATES of at least %.0f", 1/d.Grid.MaxP-1)
		}
		ch.add(short+"MAX_P", fmt.Sprintf("%v is below the least p-value of the detector", d.Grid.MaxP), fix)
	}
	if d.Grid.Span == 0 {
		for name, set := range map[string]bool{"GRID_BOX": len(cleanList(d.Grid.Box)) > 0, "GRID_LEARN": d.Grid.Learn > 0,
			"GRID_STRIDE": d.Grid.Stride > 0} {
			if set {
				ch.add(short+name, "set, but there is no grid", "set "+Prefix+short+"GRID to the event time of a window, or remove it")
			}
		}
		return
	}
	cols, err := c.SchemaMapping().Columns(d.Fields)
	if err != nil {
		return // a fault of FIELDS
	}
	g, err := gridOf(d, cols, nil)
	switch {
	case d.Op != scan.Op.String():
		ch.add(short+"GRID", "op "+d.Op+" reads no grid", "use "+Prefix+short+"OP="+scan.Op.String())
	case err != nil && strings.Contains(err.Error(), "fields"):
		ch.add(short+"FIELDS", err.Error(), "name two to four of "+Prefix+"VALUE_FIELDS")
	case err != nil:
		ch.add(short+"GRID_BOX", err.Error(), "write it like 0,0,100,50")
	case !(g.Box[2] > g.Box[0] && g.Box[3] > g.Box[1]):
		ch.add(short+"GRID_BOX", "the box is empty", "write x0,y0,x1,y1 with x0 below x1 and y0 below y1")
	case g.Span == 0:
		ch.add(short+"GRID", fmt.Sprintf("%v is less than a microsecond", d.Grid.Span), "")
	case g.Stride == 0 || g.Span%g.Stride != 0:
		ch.add(short+"GRID_STRIDE", fmt.Sprintf("GRID=%v is no multiple of %v", d.Grid.Span, d.Grid.Stride), "use GRID divided by a whole number")
	case g.Cells() > 0 && g.Tables() > series.MaxRows/g.Cells():
		ch.add(short+"GRID_STRIDE",
			fmt.Sprintf("%d tables of %d cells are more than the %d cells of a window", g.Tables(), g.Cells(), series.MaxRows),
			"raise it, or lower GRID or WINDOW")
	case g.Learn > 0 && g.Baseline >= 0:
		ch.add(short+"GRID_LEARN", fmt.Sprintf("set, but the baseline is the field %s", d.Fields[3]), "remove one of them")
	case d.Stride != 1:
		ch.add(short+"STRIDE", fmt.Sprintf("is %d, but a grid has one score for each window", d.Stride), "remove it")
	case c.Mapping.Duplicates == "drop":
		ch.add("DUPLICATES", "drop, but samples of a grid may have one event time", "use keep")
	case c.Keys.TTL > 0 && c.Keys.TTL < d.Grid.Span:
		ch.add("TTL", fmt.Sprintf("%v is less than %s%sGRID=%v: a series would be forgotten with its window", c.Keys.TTL, Prefix, short,
			d.Grid.Span),
			"raise it")
	}
}

// gridText returns the part of a window's fingerprint that a grid determines.
func gridText(g *series.Grid) string {
	text := fmt.Sprintf(";grid=%d;columns=%d;rows=%d;box=%v;learn=%d;signed=%v", g.Span, g.Columns, g.Rows, g.Box, g.Learn, g.Signed)
	if g.Tables() > 1 {
		text += fmt.Sprintf(";stride=%d", g.Stride)
	}
	return text
}

// gridSettingsOf lists the settings behind a grid's part of a window's fingerprint.
func gridSettingsOf(d *DetectorSettings, g *series.Grid) (list []processor.StoredSetting) {
	add := func(name, value string) {
		list = append(list, processor.StoredSetting{Name: DetectorPrefix(d.Name) + name, Value: value})
	}
	add("GRID", d.Grid.Span.String())
	if g.Tables() > 1 {
		add("GRID_STRIDE", d.Grid.Stride.String())
	}
	add("WINDOW", strconv.Itoa(d.Window))
	add("COLUMNS", strconv.Itoa(g.Columns))
	add("GRID_BOX", strings.Trim(strings.ReplaceAll(fmt.Sprint(g.Box), " ", ","), "[]"))
	add("GRID_LEARN", strconv.Itoa(g.Learn))
	return list
}
