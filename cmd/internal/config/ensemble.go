package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"odradek/detectors"
	"odradek/detectors/ensemble"
	"odradek/detectors/threshold"
	"odradek/processor"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

// ensembleSpec has the settings of an ensemble in the form of an op's. It is not an op: the state
// combines its scores from its members'.
var ensembleSpec = &detectors.Spec{
	Name: "ensemble",
	Help: "Finds what several detectors find together. The score is the sum of log(score / slow mean of the " +
		"earlier scores) of the detectors in MEMBERS, with COMBINE=max the highest of them; with COMBINE=any it is one anomaly for all " +
		"that any of them finds.",
	Params: []detectors.Param{
		{Name: "MEMORY", Type: detectors.Int, Default: 5000, Min: 1, Max: ensemble.MaxMemory,
			Help: "Scores of a member's slow mean, not with COMBINE=any.", Example: "20000"},
		{Name: "MIN_POINTS", Type: detectors.Int, Default: 64, Min: 1, Max: ensemble.MaxMemory,
			Help: "Scores of each member before the first score, not with COMBINE=any.", Example: "16"},
		{Name: "ALIGN", Type: detectors.Bool, Default: false,
			Help: "Delay members' scores so that windows have the same middle, not with COMBINE=any."},
	},
	Defaults: []detectors.Default{
		{Name: "HISTORY", Value: func(detectors.Values) string { return "1024" }, Words: "1024"},
		{Name: "CLOSE_AFTER", Value: func(detectors.Values) string { return "64" }, Words: "64"},
	},
}

// combineAny is the value of COMBINE that makes one anomaly for all that the members find, combineMax the one that takes the highest term.
const (
	combineAny = "any"
	combineMax = "max"
)

// memberSettings are the settings that every detector has except an ensemble: they belong to its members. sumSettings are those that
// ensembles of any do not have.
var (
	memberSettings = []string{"WINDOW", "STRIDE", "FIELDS", "SCALE", "UNTIL", "ONLY_WITH"}
	sumSettings    = []string{"MEMORY", "MIN_POINTS", "ALIGN", "WEIGHTS"}
)

func (d *DetectorSettings) isEnsemble() bool { return d.Op == ensembleSpec.Name }

func (d *DetectorSettings) isMax() bool { return d.isEnsemble() && d.Combine == combineMax }

func (d *DetectorSettings) isAny() bool { return d.isEnsemble() && d.Combine == combineAny }

// weights returns the factors of the members' terms, nil where each is 1; NaN for a text that is no number.
func (d *DetectorSettings) weights() (list []float64) {
	for _, text := range d.Weights {
		w, err := strconv.ParseFloat(text, 64)
		if err != nil {
			w = math.NaN()
		}
		list = append(list, w)
	}
	return list
}

// judgedByAny reports whether an ensemble of any uses the verdicts on a detector's scores.
func (c *Config) judgedByAny(d *DetectorSettings) bool {
	return slices.ContainsFunc(c.Detectors, func(e DetectorSettings) bool { return e.isAny() && slices.Contains(e.Members, d.Name) })
}

// onlyWith returns the detector and the number of ONLY_WITH; ok is false where it has another form.
func (d *DetectorSettings) onlyWith() (name string, above float32, ok bool) {
	name, number, _ := strings.Cut(d.OnlyWith, ":")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 32)
	return strings.TrimSpace(name), float32(x), err == nil && name != "" && x > 0 && x <= math.MaxFloat32
}

// onlyWith checks ONLY_WITH of a detector.
func (ch *checker) onlyWith(short string, d *DetectorSettings) {
	if d.OnlyWith == "" || d.isEnsemble() {
		return
	}
	name, _, ok := d.onlyWith()
	if !ok {
		ch.add(short+"ONLY_WITH", fmt.Sprintf("%q is no detector with a number above 0", d.OnlyWith), "write it like band:8")
		return
	}
	if !ch.c.judgedByAny(d) {
		if len(ch.c.picked) > 0 { // the mapping leaves the ensemble out
			return
		}
		ch.add(short+"ONLY_WITH", "no ensemble with COMBINE=any has the detector as a member", "add it to the MEMBERS of one, or remove this")
	}
	at := slices.IndexFunc(ch.c.Detectors, func(o DetectorSettings) bool { return o.Name == name })
	const another = "name a detector of op band"
	if at < 0 {
		ch.add(short+"ONLY_WITH", fmt.Sprintf("%q is not one of %sDETECTORS", name, Prefix), another)
		return
	}
	gate := &ch.c.Detectors[at]
	built, err := gate.Build()
	if _, seasonal := built.(detectors.Seasonal); err == nil && !seasonal {
		ch.add(short+"ONLY_WITH", fmt.Sprintf("%q is of op %s, which finds no period", name, gate.Op), another)
		return
	}
	if gate.Stride > ensemble.MaxSpan {
		ch.add(short+"ONLY_WITH", fmt.Sprintf("%q has a stride of %d", name, gate.Stride), fmt.Sprintf("set it to %d at most", ensemble.MaxSpan))
	}
	if !slices.Equal(cleanList(gate.Keys), cleanList(d.Keys)) {
		ch.add(short+"ONLY_WITH", fmt.Sprintf("%q reads other series", name), "set the KEYS of both to the same")
	}
}

// addGates adds what its members have in ONLY_WITH to an ensemble of any, once they are known. It returns the fingerprint's part.
func (c *Config) addGates(e *series.Ensemble, ks *state.Config) (canonical string, err error) {
	for i, at := range e.Members {
		d := &c.Detectors[at]
		if d.OnlyWith == "" {
			continue
		}
		name, above, ok := d.onlyWith()
		named := slices.IndexFunc(c.Detectors, func(o DetectorSettings) bool { return o.Name == name })
		if !ok || named < 0 || c.Detectors[named].isEnsemble() {
			return "", fmt.Errorf("%sONLY_WITH: %q is no detector with a method and a number", DetectorPrefix(d.Name), d.OnlyWith)
		}
		gate := series.Gate{Detector: named, Above: above}
		number := slices.Index(e.Gates, gate)
		if number < 0 {
			number, e.Gates = len(e.Gates), append(e.Gates, gate)
		}
		if e.OnlyWith == nil {
			e.OnlyWith = make([]int, len(e.Members))
		}
		e.OnlyWith[i] = number + 1
		g := &ks.Detectors[named]
		canonical += fmt.Sprintf(";only-with=%d,%v,%016x,%016x", i, above, g.Fingerprint, ks.Windows[g.Window].Fingerprint)
	}
	return canonical, nil
}

// addEnsembles sets the configuration of the ensembles, once their members have theirs.
func (c *Config) addEnsembles(ks *state.Config) error {
	for i := range c.Detectors {
		d := &c.Detectors[i]
		if !d.isEnsemble() {
			continue
		}
		v := d.values(none)
		e := &series.Ensemble{Memory: v.Int("MEMORY"), MinPoints: v.Int("MIN_POINTS"), Max: d.isMax(), Any: d.isAny(), Align: v.Bool("ALIGN"),
			Weights: d.weights()}
		canonical := d.canonical()
		if e.Weights != nil {
			canonical += fmt.Sprintf(";weights=%v", e.Weights)
		}
		if e.Max {
			canonical += ";combine=max"
		}
		if e.Any {
			e.Memory, e.MinPoints = 0, 0
			canonical += ";combine=any"
		}
		for _, name := range d.Members {
			at := slices.IndexFunc(c.Detectors, func(m DetectorSettings) bool { return m.Name == name })
			if at < 0 || c.Detectors[at].isEnsemble() {
				return fmt.Errorf("%sMEMBERS: %q is not a detector with a method", DetectorPrefix(d.Name), name)
			}
			e.Members = append(e.Members, at)
			m := &ks.Detectors[at]
			canonical += fmt.Sprintf(";member=%q,%016x,%016x", name, m.Fingerprint, ks.Windows[m.Window].Fingerprint)
		}
		if e.Any {
			gates, err := c.addGates(e, ks)
			if err != nil {
				return err
			}
			canonical += gates
		}
		patterns, keys, err := keyPatterns(d.Keys)
		if err != nil {
			return fmt.Errorf("%sKEYS: %w", DetectorPrefix(d.Name), err)
		}
		dc := &ks.Detectors[i]
		*dc = series.DetectorConfig{Name: d.Name, Ensemble: e, Fields: d.Members, Keys: keys, Patterns: patterns, Stride: 1,
			Smooth: threshold.Smoothing(d.Smooth), Fingerprint: fingerprint(canonical)}
		if dc.Threshold, err = c.thresholdOf(d); err != nil {
			return fmt.Errorf("%sTHRESHOLD: %w", DetectorPrefix(d.Name), err)
		}
		if dc.Threshold != nil && c.Detect.Anomalies {
			dc.Events, dc.Shadow = d.Alarm.policy(), d.Alarm.Shadow
		}
	}
	return nil
}

// ensemble checks an ensemble, or that a detector is none.
func (ch *checker) ensemble(short string, d *DetectorSettings) {
	if !d.isEnsemble() {
		if len(d.Members) > 0 {
			ch.add(short+"MEMBERS", fmt.Sprintf("op %s has no members", d.Op), "remove it or set "+Prefix+short+"OP=ensemble")
		}
		if len(d.Weights) > 0 {
			ch.add(short+"WEIGHTS", fmt.Sprintf("op %s has no members", d.Op), "remove it or set "+Prefix+short+"OP=ensemble")
		}
		if d.Combine == combineAny || d.Combine == combineMax {
			ch.add(short+"COMBINE", fmt.Sprintf("op %s has no members", d.Op), "remove it or set "+Prefix+short+"OP=ensemble")
		}
		return
	}
	problems, lasts := twice(d.Members), false
	for _, name := range d.Members {
		at := slices.IndexFunc(ch.c.Detectors, func(m DetectorSettings) bool { return m.Name == name })
		lasts = lasts || at < 0 || ch.c.Detectors[at].Until == 0
		switch {
		case at < 0:
			problems = append(problems, fmt.Sprintf("%q is not one of %sDETECTORS", name, Prefix))
		case ch.c.Detectors[at].isEnsemble():
			problems = append(problems, fmt.Sprintf("%q is an ensemble", name))
		case !d.isAny() && ch.c.Detectors[at].Until > 0:
			problems = append(problems, fmt.Sprintf("%q ends (UNTIL), which COMBINE=%s does not allow", name, d.Combine))
		case ch.c.Detectors[at].Grid.Span > 0:
			problems = append(problems, fmt.Sprintf("%q scores grids, not samples", name))
		case ch.c.Detectors[at].Stride > ensemble.MaxSpan:
			problems = append(problems, fmt.Sprintf("%q has a stride of %d", name, ch.c.Detectors[at].Stride))
		case d.isAny() && ch.c.Detectors[at].Alarm.Threshold == Off:
			problems = append(problems, fmt.Sprintf("%q has no threshold, which COMBINE=any needs", name))
		}
	}
	if d.isAny() && !lasts && len(d.Members) > 0 {
		problems = append(problems, "all members end (UNTIL)")
	}
	if len(d.Members) < 2 || len(d.Members) > ensemble.MaxMembers {
		problems = append(problems, fmt.Sprintf("%d members", len(d.Members)))
	}
	ch.addAll(short+"MEMBERS", problems,
		fmt.Sprintf("name 2 to %d other detectors, of a stride of %d at most", ensemble.MaxMembers, ensemble.MaxSpan))
	if bad := slices.IndexFunc(d.weights(), func(w float64) bool { return !(w > 0 && w <= ensemble.MaxWeight) }); bad >= 0 {
		ch.add(short+"WEIGHTS", fmt.Sprintf("%q is no factor", d.Weights[bad]), fmt.Sprintf("use numbers above 0 to %d", ensemble.MaxWeight))
	} else if n := len(d.Weights); n > 0 && n != len(d.Members) {
		ch.add(short+"WEIGHTS", fmt.Sprintf("%d weights of %d members", n, len(d.Members)), "name one for each, in the order of MEMBERS")
	}
	if d.isAny() {
		for _, name := range sumSettings {
			if !ch.c.isDefault(short + name) {
				ch.add(short+name, "means nothing with COMBINE=any", "remove it, or set COMBINE=sum or max")
			}
		}
	}
	for _, name := range memberSettings {
		if !ch.c.isDefault(short + name) {
			ch.add(short+name, "an ensemble has none", "remove it, or set it for its members")
		}
	}
	if v := d.values(none); v.Int("MIN_POINTS") > v.Int("MEMORY") {
		ch.add(short+"MIN_POINTS", fmt.Sprintf("is %d, more than the memory of %d", v.Int("MIN_POINTS"), v.Int("MEMORY")), "")
	}
	if d.isAny() {
		return
	}
	// Scores are logarithms, and as often below 0 as above.
	if r, err := threshold.Parse(d.Alarm.Threshold); err == nil &&
		(r.Kind == threshold.Mean || r.Kind == threshold.Quantile && r.Margin != 0 && r.Margin != 1) {
		ch.add(short+"THRESHOLD", d.Alarm.Threshold+" is a multiple, of scores that may be below 0", "use conformal, mad or fixed")
	}
	if d.Alarm.Release < 1 {
		ch.add(short+"RELEASE", "a share of a threshold that may be below 0 means nothing", "use 1")
	}
}

// ensembleSettings returns the settings behind the fingerprint of an ensemble, but for its members' settings,
// whose fingerprints it has.
func (d *DetectorSettings) ensembleSettings(dc *series.DetectorConfig) processor.StateSettings {
	s := processor.StateSettings{Detector: d.Name, Params: processor.Fingerprint(dc.Fingerprint)}
	op := func(name, value string) {
		s.Op = append(s.Op, processor.StoredSetting{Name: DetectorPrefix(d.Name) + name, Value: value})
	}
	op("OP", d.Op)
	op("MEMBERS", strings.Join(d.Members, ","))
	if d.isAny() || d.isMax() {
		op("COMBINE", d.Combine)
	}
	if len(d.Weights) > 0 {
		op("WEIGHTS", strings.Join(d.Weights, ","))
	}
	op("SMOOTH", strconv.Itoa(d.Smooth))
	for _, p := range d.stateParams() {
		op(p.name, formatValue(p.field))
	}
	return s
}
