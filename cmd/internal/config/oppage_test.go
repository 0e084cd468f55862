package config

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"odradek/cmd/internal/backtest"
	"odradek/detectors"
	"odradek/processor/state"
)

const opPages = "../../../docs/ops"

// picture is what the picture of an op shows: the last samples of a synthetic series with a fault, and their scores.
type picture struct {
	settings string // of the detector, as NAME=value separated by spaces
	members  string // of the detectors near and jump, which an ensemble combines; each likewise, separated by a semicolon
	fault    string // in words
	samples  int    // of the series
	shown    int    // the last of them
	every    time.Duration
	from, to int // the fault
	value    func(rng *rand.Rand, i int, faulty bool) float64
}

// wave is the usual series of the pictures: a period of 40 samples and noise.
func wave(rng *rand.Rand, i int) float64 {
	return math.Sin(2*math.Pi*float64(i)/40) + 0.1*rng.NormFloat64()
}

// added returns a series whose faulty samples are higher than others.
func added(by float64) func(*rand.Rand, int, bool) float64 {
	return func(rng *rand.Rand, i int, faulty bool) float64 {
		v := wave(rng, i)
		if faulty {
			v += by
		}
		return v
	}
}

// faster returns a series whose faulty samples have another period.
func faster(rng *rand.Rand, i int, faulty bool) float64 {
	if faulty {
		return wave(rng, 2*i)
	}
	return wave(rng, i)
}

// usualPicture is the picture of an op that is not in pictures.
var usualPicture = picture{
	settings: "", fault: "three readings that are too high", samples: 900, shown: 300, from: 800, to: 803, value: added(3),
}

// pictures has, by op, what its picture shows.
var pictures = map[string]picture{
	"ar": {
		settings: "ORDER=16 THRESHOLD=quantile:0.995*1.5",
		fault:    "a reading within the usual range, at the wrong moment", samples: 900, shown: 300, from: 790, to: 791,
		value: added(1.2),
	},
	"band": {
		settings: "",
		fault:    "a day without its peak", samples: 24 * 28, shown: 24 * 7, every: time.Hour, from: 24*25 + 9, to: 24*25 + 17,
		value: func(rng *rand.Rand, i int, faulty bool) float64 {
			v := 20 + rng.NormFloat64()
			if h := i % 24; h >= 9 && h < 17 && !faulty {
				v += 15
			}
			return v
		},
	},
	"discord": {
		settings: "WINDOW=600 LENGTH=40 THRESHOLD=quantile:0.95*1.3",
		fault:    "another rhythm", samples: 1000, shown: 400, from: 840, to: 880,
		value: faster,
	},
	"discords": {
		settings: "WINDOW=400 TUMBLING=true MIN_LENGTH=24 MAX_LENGTH=56 THRESHOLD=fixed:0.6",
		fault:    "another rhythm", samples: 400, shown: 400, from: 200, to: 240,
		value: faster,
	},
	"ensemble": {
		settings: "MEMBERS=near,jump THRESHOLD=conformal:0.002",
		members:  "OP=knn WINDOW=256 K=5 EMBED=16;OP=ar",
		fault:    "a level that is a little too high", samples: 900, shown: 300, from: 790, to: 820,
		value: added(0.8),
	},
	"flatline": {
		settings: "AFTER=20",
		fault:    "a sensor that is stuck", samples: 300, shown: 300, from: 180, to: 230,
		value: func(rng *rand.Rand, i int, faulty bool) float64 {
			if v := wave(rng, i); !faulty {
				return v
			}
			return 0.4
		},
	},
	"ikasst": {
		settings: "WINDOW=40 THRESHOLD=fixed:0.5",
		fault:    "another rhythm", samples: 600, shown: 400, from: 400, to: 600,
		value: faster,
	},
	"knn": {
		settings: "WINDOW=400 K=5 EMBED=16 THRESHOLD=quantile:0.995*1.2",
		fault:    "a level that is too high", samples: 900, shown: 300, from: 790, to: 820,
		value: added(1.2),
	},
	"lof": {
		settings: "WINDOW=300 THRESHOLD=fixed:4",
		fault:    "a reading between two levels", samples: 500, shown: 200, from: 420, to: 421,
		value: func(rng *rand.Rand, i int, faulty bool) float64 {
			v := 0.5*rng.NormFloat64() + 10*float64(i/10%2)
			if faulty {
				v = 5
			}
			return v
		},
	},
	"scan": {
		settings: "WINDOW=288 COLUMNS=24 THRESHOLD=fixed:10",
	},
	"joint": {
		settings: "THRESHOLD=conformal:0.0025",
		fault:    "another level for a while, of one value", samples: 1600, shown: 400, from: 1440, to: 1480,
		value: added(1.5),
	},
	"season": {
		settings: "BINS=24 THRESHOLD=fixed:6",
		fault:    "a day without its peak", samples: 24 * 14, shown: 24 * 5, every: time.Hour, from: 24*12 + 9, to: 24*12 + 17,
		value: func(rng *rand.Rand, i int, faulty bool) float64 {
			v := 20 + rng.NormFloat64()
			if h := i % 24; h >= 9 && h < 17 && !faulty {
				v += 15
			}
			return v
		},
	},
	"solvingset": {
		settings: "WINDOW=400 K=5 EMBED=16",
		fault:    "a level that is too high", samples: 900, shown: 300, from: 790, to: 820,
		value: added(1.2),
	},
	"svdsst": {
		settings: "WINDOW=40 THRESHOLD=fixed:0.5",
		fault:    "another rhythm", samples: 600, shown: 400, from: 400, to: 600,
		value: faster,
	},
	"topn": {
		settings: "WINDOW=300 TUMBLING=true STRIDE=300 K=5 EMBED=8 TOP=8",
		fault:    "a level that is too high", samples: 307, shown: 307, from: 180, to: 186,
		value: added(1.5),
	},
	"value": {
		settings: "THRESHOLD=fixed:1.5",
		fault:    "readings above the limit", samples: 300, shown: 300, from: 180, to: 200,
		value: added(1.8),
	},
	"zscore": {
		settings: "WINDOW=100 THRESHOLD=fixed:5",
		fault:    "a spike and another level", samples: 500, shown: 300, from: 380, to: 500,
		value: func(rng *rand.Rand, i int, faulty bool) float64 {
			v := rng.NormFloat64()
			if i == 300 {
				v += 7
			}
			if faulty {
				v += 6
			}
			return v
		},
	},
}

// pictureOf returns what the picture of an op shows.
func pictureOf(op string) picture {
	p, ok := pictures[op]
	if !ok {
		p = usualPicture
	}
	p.every = cmp.Or(p.every, time.Minute)
	return p
}

// yaml returns the settings of the picture's detectors as the settings file has them.
func (p *picture) yaml(op string) string {
	var b strings.Builder
	b.WriteString("detectors:\n")
	write := func(name, op, settings string) {
		fmt.Fprintf(&b, "  %s:\n    op: %s\n", name, op)
		for _, s := range strings.Fields(settings) {
			key, value, _ := strings.Cut(s, "=")
			if strings.Contains(value, ",") {
				value = "[" + strings.ReplaceAll(value, ",", ", ") + "]"
			}
			fmt.Fprintf(&b, "    %s: %s\n", strings.ToLower(key), value)
		}
	}
	if p.members != "" {
		for i, m := range strings.Split(p.members, ";") {
			memberOp, rest, _ := strings.Cut(strings.TrimPrefix(m, "OP="), " ")
			write([]string{"near", "jump"}[i], memberOp, rest)
		}
	}
	write("mine", op, p.settings)
	return b.String()
}

// text says what the picture shows.
func (p *picture) text(op string) string {
	if op == "scan" {
		return "A grid with more events in a region, and the rectangle that the op finds with these settings:"
	}
	return "Above: " + p.fault + ". Below: score and threshold (dashed) with these settings:"
}

// folded runs the settings over rows, and returns the scores and thresholds of the samples and the last region.
func folded(t *testing.T, settings string, every time.Duration, rows []float64) (scores, bounds []float64, region [4]int32) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	c, faults, _ := Parse(minimal("ODRADEK_CONFIG="+file, "ODRADEK_KEY_FIELD=@key"))
	if len(faults) > 0 {
		t.Fatal(settings, faults)
	}
	ks, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	mine := int32(len(c.Detectors) - 1)
	start := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for range rows {
		scores, bounds = append(scores, math.NaN()), append(bounds, math.NaN())
	}
	at := func(us int64) int { return int(time.UnixMicro(us).Sub(start) / every) }
	exec := detectors.NewCPU(1)
	defer exec.Close()
	lane := backtest.NewLane(ks, exec, "t", 0, 0, func(rows []state.Row, events []state.EventRow) error {
		for _, r := range rows {
			if r.Detector == mine {
				scores[at(r.Time)], bounds[at(r.Time)] = float64(r.Judged), float64(r.Threshold)
			}
		}
		for _, e := range events {
			if r := e.Change.Anomaly.Region; r != nil {
				region = [4]int32{r.ColumnFrom, r.RowFrom, r.ColumnTo, r.RowTo}
			}
		}
		return nil
	})
	defer lane.Close()
	for i, v := range rows {
		sample := state.Sample{Key: []byte("k"), Time: start.Add(time.Duration(i) * every).UnixMicro(),
			Offset: ks.Place(int64(i), 0), Values: []float64{v}}
		if _, err := lane.Fold(t.Context(), &sample); err != nil {
			t.Fatal(err)
		}
	}
	if err := lane.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return scores, bounds, region
}

// draw returns the picture of an op as SVG. Its colours are readable on white and on black.
func draw(t *testing.T, op string) string {
	t.Helper()
	p := pictureOf(op)
	rng := rand.New(rand.NewPCG(1, 2))
	if op == "scan" {
		return drawGrid(t, &p, rng)
	}
	rows := make([]float64, p.samples)
	for i := range rows {
		rows[i] = p.value(rng, i, i >= p.from && i < p.to)
	}
	scores, bounds, _ := folded(t, p.yaml(op), p.every, rows)
	first := p.samples - p.shown
	const width, upper, lower = 800, 140, 90
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, upper+lower+30)
	x := func(i int) float64 { return 10 + (width-20)*float64(i-first)/float64(p.shown) }
	fmt.Fprintf(&b, `<rect x="%.0f" y="0" width="%.0f" height="%d" fill="#e69f00" fill-opacity=".35"/>`+"\n", x(p.from), max(2, x(p.to)-x(p.from)), upper)
	curve := func(list []float64, top, height int, low, high float64, style string) {
		fmt.Fprintf(&b, `<path fill="none" %s d="`, style)
		for i := first; i < p.samples; i++ {
			y := float64(top) + float64(height)*(high-min(max(list[i], low), high))/max(1e-9, high-low)
			before, after := i > first && list[i-1] == list[i-1], i+1 < p.samples && list[i+1] == list[i+1]
			switch {
			case list[i] != list[i]:
			case before:
				fmt.Fprintf(&b, "L%.0f %.0f", x(i), y)
			case after:
				fmt.Fprintf(&b, "M%.0f %.0f", x(i), y)
			default: // a score alone is an upright line
				fmt.Fprintf(&b, "M%.0f %dV%.0f", x(i), top+height, y)
			}
		}
		b.WriteString("\"/>\n")
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range rows[first:] {
		low, high = min(low, v), max(high, v)
	}
	curve(rows, 8, upper-16, low, high, `stroke="#0072b2" stroke-width="1.5"`)
	high = 0
	for i := first; i < p.samples; i++ {
		if s := scores[i]; s == s {
			high = max(high, s)
		}
		if s := bounds[i]; s == s {
			high = max(high, s)
		}
	}
	curve(scores, upper+16, lower, 0, high, `stroke="#d55e00" stroke-width="1.5"`)
	curve(bounds, upper+16, lower, 0, high, `stroke="#888" stroke-dasharray="5 4"`)
	fmt.Fprintf(&b, "<text x=\"10\" y=\"%d\" fill=\"#888\">score</text>\n</svg>\n", upper+28)
	return b.String()
}

// drawGrid returns the picture of op scan: the counts of a grid, and the rectangle that is found.
func drawGrid(t *testing.T, p *picture, rng *rand.Rand) string {
	t.Helper()
	const columns, rows, size = 24, 12, 20
	counts := make([]float64, columns*rows)
	for i := range counts {
		rate := 0.1
		if x, y := i%columns, i/columns; x >= 14 && x < 18 && y >= 4 && y < 8 {
			rate = 0.25
		}
		for range 50 {
			if rng.Float64() < rate {
				counts[i]++
			}
		}
	}
	_, _, found := folded(t, p.yaml("scan"), p.every, counts)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" fill="#0072b2">`+"\n", columns*size, rows*size)
	for i, c := range counts {
		fmt.Fprintf(&b, `<path d="M%d %dh%dv%dh-%dz" fill-opacity=".%02.0f"/>`+"\n",
			i%columns*size, i/columns*size, size-1, size-1, size-1, min(99, 4*c))
	}
	fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#d55e00" stroke-width="3"/>`+"\n</svg>\n",
		found[0]*size, found[1]*size, (found[2]-found[0]+1)*size, (found[3]-found[1]+1)*size)
	return b.String()
}

// TestOpPages: each op has a page, made from the table of ops, and no page is of another.
func TestOpPages(t *testing.T) {
	want := map[string]string{}
	for _, spec := range opSpecs() {
		p := pictureOf(spec.Name)
		want[spec.Name+".md"] = opPage(spec, p.yaml(spec.Name), p.text(spec.Name))
		want[spec.Name+".svg"] = draw(t, spec.Name)
	}
	if *update {
		if err := os.MkdirAll(opPages, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(opPages, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := os.ReadDir(opPages)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(opPages, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		switch wanted, ok := want[f.Name()]; {
		case !ok:
			t.Errorf("docs/ops/%s is of no op: remove it", f.Name())
		case string(text) != wanted:
			t.Errorf("docs/ops/%s is not what the table of ops says: run go generate ./cmd/internal/config", f.Name())
		}
		delete(want, f.Name())
		if len(text) > 15_000 {
			t.Errorf("docs/ops/%s has %d bytes", f.Name(), len(text))
		}
	}
	for name := range want {
		t.Errorf("docs/ops/%s is missing: run go generate ./cmd/internal/config", name)
	}
}

// TestSettingsCells: no cell of a table of settings is longer than people read, and each setting of an op has an example.
func TestSettingsCells(t *testing.T) {
	const most = 300
	pages, err := filepath.Glob(opPages + "/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, "../../../docs/configuration.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for _, c := range strings.Split(strings.ReplaceAll(line, `\|`, ""), " | ") {
				if n := utf8.RuneCountInString(c); n > most {
					t.Errorf("%s: a cell of %d characters: %.60s", page, n, c)
				}
			}
			if strings.Contains(line, "| `` |") {
				t.Errorf("%s: no example: %.60s", page, line)
			}
		}
	}
}
