package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors/discord"
	"odradek/detectors/seedtest"
)

// discordsResult is what `discords` prints with -json.
type discordsResult struct {
	discordsHead
	Lengths []discordsLength `json:"lengths"`
	discordsEnd
}

func discordsOf(t *testing.T, args ...string) (r discordsResult, notes string) {
	t.Helper()
	return tableResult[discordsResult](t, terminal.discords, args...)
}

// TestDiscords compares the command with the definition, over random columns with gaps, ties and flat parts, in each format: the top
// discords, range discords and discords by MERLIN's rule, each with its count, and the ranking over lengths; half of them as tasks of an
// executor with a GPU's child.
func TestDiscords(t *testing.T) {
	rng := seedtest.New(t)
	t.Setenv("ODRADEK_CUDA_CHILD", goChildProgram(t))
	for round := range 12 {
		n := 60 + rng.IntN(120)
		rows, x := make([][]float64, n), make([]float64, n)
		for i := range rows {
			x[i] = math.Sin(float64(i)*0.4) + 0.3*rng.NormFloat64()
			switch {
			case round%3 == 1 && rng.IntN(40) == 0:
				x[i] = math.NaN()
			case round%3 == 2:
				x[i] = float64(rng.IntN(4))
			}
			rows[i] = []float64{float64(i), x[i]}
		}
		path := filepath.Join(t.TempDir(), "t"+[]string{".csv", ".parquet", ".avro"}[rng.IntN(3)])
		writeTable(t, path, []string{"time", "v"}, rows)
		q := discord.RangeQuery{Lengths: discord.Lengths{Min: 4 + rng.IntN(10), Step: 1 + rng.IntN(3)}, Top: 1 + rng.IntN(3),
			Options: func(int) discord.Options { return discord.Options{} }}
		q.Lengths.Max = q.Lengths.Min + rng.IntN(15)
		most := 1 + rng.IntN(20)
		for _, radius := range []string{"off", "auto", strconv.FormatFloat(0.5+3*rng.Float64(), 'g', 4, 64)} {
			q.Radius, _ = discord.ParseRadius(radius)
			args := []string{path, "-column", "v", "-radius", radius, "-most", strconv.Itoa(most), "-executor", executors[1+round%2]}
			for name, v := range map[string]int{"min": q.Lengths.Min, "max": q.Lengths.Max, "step": q.Lengths.Step, "top": q.Top} {
				args = append(args, fmt.Sprintf("-%s=%d", name, v))
			}
			var want []discord.Ranged
			var profiles []discord.Profile
			add := func(r discord.Ranged) bool { want = append(want, r); return true }
			if radius == "off" {
				for _, m := range q.Lengths.All() {
					profiles = append(profiles, discord.Define(x, m, discord.Options{}))
					found := profiles[len(profiles)-1].Top(m, q.Top)
					add(discord.Ranged{Length: m, Count: len(found), Found: found})
				}
			} else {
				discord.DefineRanges(x, &q, add)
			}
			got, notes := discordsOf(t, args...)
			if len(got.Lengths) != len(want) || got.Rows != n || got.Column != "v" || got.discordsHead.Radius != radius {
				t.Fatalf("%q: %+v", args, got)
			}
			all, cut := 0, false
			interest := discord.NewInterest(n, 1)
			for i, w := range want {
				g := got.Lengths[i]
				if profiles != nil && len(g.Discords) == g.Count &&
					(g.Count == q.Top || math.IsInf(farthest(profiles[i], w.Length, g.Discords), -1)) {
					w.Count = g.Count // as many as there is room for beside those that were chosen
				}
				all += w.Count
				cut = cut || w.Count > most
				if g.Length != w.Length || g.Count != w.Count || len(g.Discords) != min(w.Count, most) ||
					(g.Radius != nil) != (radius != "off" && w.Radius == w.Radius) {
					t.Fatalf("%q: length %d: %d of %d discords, want %+v", args, g.Length, len(g.Discords), g.Count, w)
				}
				for k, d := range g.Discords { // of equal ones either may come first, and another one then be the next
					distance := w.Found[k].Distance
					if profiles != nil {
						distance = farthest(profiles[i], w.Length, g.Discords[:k])
					}
					if math.Abs(d.Distance-distance) > 1e-6 || math.Abs(d.Normalised-discord.Normalised(d.Distance, d.Length, 1)) > 1e-9 {
						t.Errorf("%q: length %d: discord %d is %+v, want %+v", args, g.Length, k, d, w.Found[k])
					}
				}
				for _, d := range w.Found {
					interest.Add(d)
				}
			}
			if got.discordsEnd.Count != all || cut != strings.Contains(notes, "more discords than -most") ||
				all > 0 && math.Abs(got.PerDiscord*float64(all)-got.Seconds) > 1e-9 {
				t.Errorf("%q: %d discords, want %d; %s", args, got.discordsEnd.Count, all, notes)
			}
			ranked := interest.Top(6)
			if len(ranked) > 0 && math.Abs(got.Ranking[0].Normalised-discord.Normalised(ranked[0].Distance, ranked[0].Length, 1)) > 1e-6 {
				t.Errorf("%q: the most interesting is %+v, want %+v", args, got.Ranking[0], ranked[0])
			}
			for i, d := range got.Ranking {
				if i > 0 && d.Normalised > got.Ranking[i-1].Normalised {
					t.Errorf("%q: the ranking is %+v", args, got.Ranking)
				}
			}
		}
	}
}

// farthest returns the largest distance of a subsequence that overlaps none that were found, whose rows count from 1.
func farthest(p discord.Profile, length int, found []foundDiscord) float64 {
	most := math.Inf(-1)
	for i, d := range p.Distance {
		if d > most && !slices.ContainsFunc(found, func(f foundDiscord) bool { return i > f.Row-1-length && i < f.Row-1+length }) {
			most = d
		}
	}
	return most
}

// TestDiscordsOfDemand finds the two planted faults of the file that README names, and writes them as text, CSV, SVG and HTML.
func TestDiscordsOfDemand(t *testing.T) {
	dir := t.TempDir()
	svg, page := filepath.Join(dir, "d.svg"), filepath.Join(dir, "d.html")
	args := []string{"testdata/demand.csv", "-min", "12", "-max", "72", "-radius", "auto", "-heatmap", svg, "-report", page}
	r, notes := discordsOf(t, args...)
	for i, fault := range [][2]int{{1039, 1048}, {745, 768}} { // half a day at half of the load; a Thursday without work
		if d := r.Ranking[i]; d.Row > fault[1] || d.Row+d.Length-1 < fault[0] {
			t.Errorf("discord %d of the ranking is %+v", i+1, d)
		}
	}
	if len(r.Lengths) != 61 || r.discordsEnd.Count < 200 || !strings.Contains(notes, "not read: column time") {
		t.Errorf("%d lengths, %d discords; %s", len(r.Lengths), r.discordsEnd.Count, notes)
	}
	picture, err := os.ReadFile(svg)
	must(t, err)
	html, err := os.ReadFile(page)
	must(t, err)
	if !bytes.HasPrefix(picture, []byte("<svg ")) || !bytes.Contains(html, picture) || !bytes.Contains(html, []byte("<td>1039-1053</td>")) ||
		bytes.Count(picture, []byte("<path")) < 20 {
		t.Errorf("a picture of %d bytes, a page of %d", len(picture), len(html))
	}
	term, out, errs := console()
	if code := term.discords(context.Background(), append(args, "-csv", "-quiet")); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	table, err := csv.NewReader(bytes.NewReader(out.Bytes())).ReadAll()
	must(t, err)
	if len(table) != r.discordsEnd.Count+1 || strings.Join(table[0], ",") != "length,radius,count,rank,row,distance,normalised,neighbour" {
		t.Errorf("%d rows of CSV, %v", len(table), table[0])
	}
	term, out, _ = console()
	if code := term.discords(context.Background(), args); code != exitOK || !strings.Contains(out.String(), "1039-1053") ||
		!strings.Contains(out.String(), "One length in 4 is shown") {
		t.Errorf("exit %d: %s", code, out)
	}
	// A gap: rows without a number are said, and no discord contains one.
	text, err := os.ReadFile("testdata/demand.csv")
	must(t, err)
	lines := strings.Split(string(text), "\n")
	lines[1045] = "2026-04-14T12:00:00Z," // row 1045 is after the line of names
	gap := filepath.Join(dir, "gap.csv")
	must(t, os.WriteFile(gap, []byte(strings.Join(lines, "\n")), 0o600))
	r, notes = discordsOf(t, gap, "-min", "12", "-max", "20", "-radius", "1")
	for _, l := range r.Lengths {
		for _, d := range l.Discords {
			if d.Row <= 1045 && d.Row+d.Length > 1045 {
				t.Errorf("%+v contains the gap", d)
			}
		}
	}
	if r.Missing != 1 || !strings.Contains(notes, "rows without a number: 1 of 1344") {
		t.Errorf("%d rows without a number; %s", r.Missing, notes)
	}
}

// TestDiscordsRefuses: what a flag or a table lacks is said, with what can be done.
func TestDiscordsRefuses(t *testing.T) {
	dir := t.TempDir()
	path, empty := filepath.Join(dir, "t.csv"), filepath.Join(dir, "e.parquet")
	must(t, os.WriteFile(path, []byte("name,bar,rpm\n"+strings.Repeat("pump,1,2\nvalve,2,\n", 50)), 0o600))
	var none [][]float64
	for range 100 {
		none = append(none, []float64{math.NaN()})
	}
	writeTable(t, empty, []string{"bar"}, none)
	short := filepath.Join(dir, "short.csv")
	writeTable(t, short, []string{"bar"}, [][]float64{{1}, {2}, {3}, {4}, {5}})
	for args, want := range map[string]string{
		"":                         "name a file that ends with .csv, .csv.gz, .parquet, .avro",
		"FILE":                     "several columns of numbers, bar, rpm: name one with -column",
		"FILE -column name":        `column "name": row 1 has the text "pump"; columns of numbers are bar, rpm`,
		"FILE -column bar,rpm":     "one column at a time",
		"FILE -column bar":         "has 100 rows, and stretches of 128 need twice as many: use -max up to 50",
		"FILE -column bar -min 60": "use -min and -max up to 50",
		"SHORT":                    "has 5 rows, use 6 or more",
		"FILE -min 2":              "use 3 or more",
		"FILE -min 9 -max 8":       "use 3 or more for -min, and at least -min for -max",
		"FILE -step 0":             "-step 0: use 1 or more",
		"FILE -radius -1":          `"-1": use off, auto, or a distance above 0`,
		"FILE -top 0":              "-top and -ranked are up to",
		"FILE -executor gpu":       "use one of auto, cpu, cuda",
		"FILE -column bar -max 40 -executor cuda":       "discords: -executor cuda: no program",
		"FILE -column bar -memory 16B":                  "name fewer columns with -column, allow more with -memory",
		"EMPTY -max 40":                                 "column bar has no number",
		"FILE -radius 23":                               "-radius 23: no distance is above 2*sqrt(length), 22.63 for -max 128",
		"FILE -column bar -max 40 -heatmap DIR/no/file": "/no: no such file or directory: make the folder first",
		"FILE -column bar -max 40 -report DIR":          "-report: open",
	} {
		term, out, errs := console()
		words := strings.Fields(strings.NewReplacer("FILE", path, "EMPTY", empty, "SHORT", short, "DIR", dir).Replace(args))
		if code := term.discords(context.Background(), words); code == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d: %s%s, want %s", args, code, out, errs, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	term, _, _ := console()
	o := discordsOptions{table: &tableOptions{t: term, workers: 2, quiet: true},
		lengths: discord.Lengths{Min: 5, Max: 9, Step: 1}, top: 1}
	if _, _, err := o.search(ctx, make([]float64, 100), &discordsPrinter{o: &o}); err == nil || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("stopped: %v", err)
	}
}
