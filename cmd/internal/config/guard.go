package config

import (
	"fmt"
	"slices"
	"strings"

	"odradek/detectors"
	"odradek/processor/state/rules"
)

// guardSettings are conditions on which scores that are too high become anomalies.
type guardSettings struct {
	Direction string   `env:"DIRECTION" live:"true" derived:"both; with scan above" oneof:"both|above|below" example:"above" doc:"Side of the expected value on which an anomaly is. With op scan a change empties the detector's state."`
	Least     float64  `env:"MIN_DEVIATION" live:"true" envDefault:"0" min:"0" max:"1e300" example:"0.5" doc:"Least deviation of an anomaly from the expected value, in the field's unit."`
	Share     float64  `env:"MIN_DEVIATION_SHARE" live:"true" envDefault:"0" min:"0" max:"1e6" example:"0.05" doc:"The same as a share of the expected value; with MIN_DEVIATION the larger counts."`
	OnlyIf    []string `env:"ONLY_IF" live:"true" example:"rpm>0,load>20" doc:"Conditions that the values of an anomaly must all meet: a field, > or <, and a number. A missing value meets none."`
}

// anySide is the value of DIRECTION that admits both sides.
const anySide = "both"

// searchesSide reports whether DIRECTION is a parameter of a detector's op, which searches a side of what is expected.
func (d *DetectorSettings) searchesSide() bool {
	spec := specOf(d.Op)
	return spec != nil && slices.ContainsFunc(spec.Params, func(p detectors.Param) bool { return p.Name == detectors.DirectionParam })
}

// guards returns the settings of a detector's guard, which has no direction where the op has it.
func (d *DetectorSettings) guards() *guardSettings {
	g := d.Guard
	if d.searchesSide() {
		g.Direction = anySide
	}
	return &g
}

// empty reports whether nothing is set.
func (g *guardSettings) empty() bool {
	return (g.Direction == anySide || g.Direction == "") && g.Least == 0 && g.Share == 0 && len(cleanList(g.OnlyIf)) == 0
}

// guardOf returns the detector's guard, nil for none. names are its columns' names.
func (d *DetectorSettings) guardOf(names []string) (*rules.Guard, error) {
	settings := d.guards()
	if settings.empty() {
		return nil, nil
	}
	g := &rules.Guard{Least: settings.Least, Share: settings.Share}
	var err error
	if g.Direction, err = rules.ParseDirection(settings.Direction); err != nil {
		return nil, err
	}
	for _, s := range cleanList(settings.OnlyIf) {
		gate, err := rules.ParseGate(s, names)
		if err != nil {
			return nil, err
		}
		g.Gates = append(g.Gates, gate)
	}
	return g, g.Check()
}

// guard checks the settings of a detector's guard.
func (ch *checker) guard(short string, d *DetectorSettings) {
	g := d.guards()
	if g.empty() || !ch.ok(short+"DIRECTION", short+"MIN_DEVIATION", short+"MIN_DEVIATION_SHARE", short+"OP", short+"FIELDS") {
		return
	}
	deviates := map[string]bool{"DIRECTION": g.Direction != anySide, "MIN_DEVIATION": g.Least != 0, "MIN_DEVIATION_SHARE": g.Share != 0}
	set := func(all bool, problem, fix string) {
		for _, name := range []string{"DIRECTION", "MIN_DEVIATION", "MIN_DEVIATION_SHARE", "ONLY_IF"} {
			if deviates[name] || all && name == "ONLY_IF" && len(cleanList(g.OnlyIf)) > 0 {
				ch.add(short+name, problem, fix)
			}
		}
	}
	switch {
	case d.isEnsemble():
		set(true, "set, but an ensemble has scores and no values", "remove it")
		return
	case d.Grid.Span > 0:
		set(true, "set, but the detector scores grids, not samples", "remove it, or use THRESHOLD and MAX_P")
		return
	case d.Alarm.Threshold == Off:
		set(true, "set, but "+Prefix+short+"THRESHOLD=off judges no score", "set a threshold or remove it")
		return
	}
	if spec := specOf(d.Op); spec != nil && ch.ok(d.settingNames(short)...) {
		if det, err := d.Build(); err == nil {
			if _, ok := det.(detectors.Explainer); !ok {
				set(false, fmt.Sprintf("set, but op %s has no expected values", d.Op), "remove it; ONLY_IF works with every op")
			}
		}
	}
	m := ch.c.SchemaMapping()
	columns, err := m.Columns(d.Fields)
	if err != nil {
		return // a fault of FIELDS
	}
	names := m.ColumnNames(columns)
	var problems []string
	for _, s := range cleanList(g.OnlyIf) {
		if _, err := rules.ParseGate(s, names); err != nil {
			problems = append(problems, err.Error())
		}
	}
	ch.addAll(short+"ONLY_IF", problems, "use some of "+strings.Join(names, ", ")+", with > or < and a number")
}
