package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// figure is a row of a paper's table: what was published, and a line of the recorded results.
type figure struct {
	what, published string
	file, shape     string // of the results, without .jsonl, and the case
	form            form
}

// form says how a line's value is written.
type form uint8

const (
	rate    form = iota // as it is, with its unit
	million             // the seconds that a million of it take
	once                // the milliseconds that one of it takes
	share               // the share of the distances, or of the ratios, that the note names
)

// paperFigures are the figures of the papers, by number: 000 has none of its own.
var paperFigures = map[string][]figure{
	"001": {
		{"share of distances, G2d, k=5", "0.13 %", "xeon-2core-papers", "G2d n=10 k=5, SolvingSet", share},
		{"G2d, k=10", "0.11 %", "xeon-2core-papers", "G2d n=10 k=10, SolvingSet", share},
		{"G2d, k=50", "0.15 %", "xeon-2core-papers", "G2d n=10 k=50, SolvingSet", share},
		{"G3d, k=5", "0.34 %", "xeon-2core-papers", "G3d n=10 k=5, SolvingSet", share},
		{"G3d, k=10", "0.40 %", "xeon-2core-papers", "G3d n=10 k=10, SolvingSet", share},
		{"G3d, k=50", "0.64 %", "xeon-2core-papers", "G3d n=10 k=50, SolvingSet", share},
		{"1,000,000 x 2, k=50, one GPU", "Figure 7, no number", "h200-topn", "topn N=1000000 d=2 k=50, top 10, kernel", once},
		{"cover, 286,048 x 10, k=50, one GPU", "Figure 7, no number", "h200-topn", "topn N=286048 d=10 k=50, top 10, cover, kernel", once},
	},
	"002": {
		{"SVD-SST, w=320, r=12, 1 GPU", "Figure 9, no number", "h200x4-scale", "svdsst w=320 r=12, 16 fresh, Execute, 1 GPUs", rate},
		{"2 GPUs", "Figure 9, no number", "h200x4-scale", "svdsst w=320 r=12, 16 fresh, Execute, 2 GPUs", rate},
		{"4 GPUs", "305 scores/s on 16", "h200x4-scale", "svdsst w=320 r=12, 16 fresh, Execute, 4 GPUs", rate},
		{"IKA-SST, 1 GPU", "Figure 13, no number", "h200x4-scale", "ikasst w=100, 16 fresh, Execute, 1 GPUs", rate},
		{"2 GPUs", "Figure 13, no number", "h200x4-scale", "ikasst w=100, 16 fresh, Execute, 2 GPUs", rate},
		{"4 GPUs", "889,000 scores/s on 16", "h200x4-scale", "ikasst w=100, 16 fresh, Execute, 4 GPUs", rate},
		{"a million scores of IKA-SST, w=20", "Figure 10, no number", "h200x4-scale", "ikasst w=20, 16 fresh, Execute, 1 GPUs", million},
		{"w=50", "Figure 10, no number", "h200x4-scale", "ikasst w=50, 16 fresh, Execute, 1 GPUs", million},
		{"w=100", "Figure 10, no number", "h200x4-scale", "ikasst w=100, 16 fresh, Execute, 1 GPUs", million},
		{"w=200", "Figure 10, no number", "h200x4-scale", "ikasst w=200, 16 fresh, Execute, 1 GPUs", million},
		{"w=320", "Figure 10, no number", "h200x4-scale", "ikasst w=320, 16 fresh, Execute, 1 GPUs", million},
		{"w=500", "Figure 10, no number", "h200x4-scale", "ikasst w=500, 16 fresh, Execute, 1 GPUs", million},
		{"SVD-SST in its place, w=100, r=3", "none", "h200x4-scale", "svdsst w=100 r=3, 16 fresh, Execute, 1 GPUs", million},
		{"w=320, r=3", "none", "h200x4-scale", "svdsst w=320 r=3, 16 fresh, Execute, 1 GPUs", million},
		{"IKA-SST, one core, w=100", "Figure 10, no number", "epyc-2core", "ikasst-cpu", million},
	},
	"003": {
		{"a year of 35,040 readings, lengths 48 to 672", "no time given", "h200-discords",
			"discords N=35040 m=48 to 672, recording, Execute", whole35040},
		{"the same, random walk", "none", "h200-discords", "discords N=35040 m=48 to 672, random walk, Execute", whole35040},
		{"the same, noise", "none", "h200-discords", "discords N=35040 m=48 to 672, noise, Execute", whole35040},
		{"random walk of 1,000,000, length 512, with a radius", "Figure 6, no number", "h200-discords",
			"discords N=1000000 m=512 to 512, random walk, with a radius, Execute", million},
		{"1,000,000, length 512, without", "Figure 6, no number", "h200-discords", "discords N=1000000 m=512 to 512, Execute", million},
		{"100,000, length 512, with a radius", "Figure 5, no number", "h200-discords",
			"discords N=100000 m=512 to 512, with a radius, Execute", whole100000},
	},
	"004": {
		{"BF, 64 x 64, one core", "Figure 4, no number", "xeon-2core-papers", "Poisson n=64, BF", rate},
		{"DM, 64 x 64", "DM up to 90 times BF", "xeon-2core-papers", "Poisson n=64, DM", rate},
		{"AX, 64 x 64", "Figure 6, no number", "xeon-2core-papers", "Poisson n=64, AX", rate},
		{"op scan, 64 x 64", "none", "xeon-2core-papers", "Poisson n=64, op scan", rate},
		{"DM, 128 x 128", "Figure 4, no number", "xeon-2core-papers", "Poisson n=128, DM", rate},
		{"AX, 128 x 128", "Figure 6, no number", "xeon-2core-papers", "Poisson n=128, AX", rate},
		{"op scan, 128 x 128, one core, a map", "BF 17 min 55 s, an MRI", "epyc-2core", "scan-cpu", once},
		{"one GPU, 128 x 128, a map", "BF 66 s, AX 24 s, an MRI", "h100-scan", "scan n=128, one map, Execute", once},
		{"the same with 999 random maps", "none", "h100-scan", "scan n=128, 999 replicates, one map, Execute", once},
		{"512 x 512, one GPU", "beyond its 4 GB", "h200x2-scan", "scan n=512, one map, one batch at a time, 1 GPUs", once},
		{"512 x 512, two GPUs", "Figure 5: 3 times one", "h200x2-scan", "scan n=512, one map, one batch at a time, 2 GPUs", once},
	},
}

// The forms of what takes as long as a number of samples.
const (
	whole35040 form = 100 + iota
	whole100000
)

const papersAbout = `Prints the tables of docs/papers.md: what the papers have published beside figures of docs/benchmarks/results.

usage: bench papers [-results FOLDER] [001 002 003 004]
`

// papers prints the tables of papers, by default of all.
func (t terminal) papers(args []string) int {
	fs := flag.NewFlagSet("papers", flag.ContinueOnError)
	fs.SetOutput(t.err)
	fs.Usage = func() { fmt.Fprint(t.err, papersAbout) }
	folder := fs.String("results", filepath.Join("docs", "benchmarks", "results"), "folder of the results")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	numbers := fs.Args()
	if len(numbers) == 0 {
		numbers = []string{"001", "002", "003", "004"}
	}
	for _, n := range numbers {
		if paperFigures[n] == nil {
			fmt.Fprintf(t.err, "bench: papers: no table of paper %q; use 001, 002, 003 or 004\n", n)
			return exitUsage
		}
	}
	for i, n := range numbers {
		if i > 0 {
			fmt.Fprintln(t.out)
		}
		if err := printPaper(t.out, *folder, paperFigures[n]); err != nil {
			fmt.Fprintln(t.err, "bench: papers:", err)
			return exitFailed
		}
	}
	return exitOK
}

func printPaper(w io.Writer, folder string, list []figure) error {
	fmt.Fprint(w, "| | published | here | lines |\n|---|---|---|---|\n")
	for i := range list {
		f := &list[i]
		ours, err := f.measured(folder)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "| %s | %s | %s | [%s](benchmarks/results/%s.jsonl) |\n", f.what, f.published, ours, f.file, f.file)
		if err != nil {
			return err
		}
	}
	return nil
}

var noteShare = regexp.MustCompile(`([\d.e-]+)% of the (distances|ratios)`)

// measured returns the figure's own value, from the results.
func (f *figure) measured(folder string) (string, error) {
	path := filepath.Join(folder, f.file+".jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range slices.Backward(lines) { // the last measurement counts
		var r struct {
			Name, Case, Unit, Note string
			Value                  float64
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if r.Case != f.shape && (r.Case != "" || r.Name != f.shape) || r.Value == 0 {
			continue
		}
		switch f.form {
		case million:
			return short(1e6/r.Value, "s"), nil
		case once:
			if strings.HasPrefix(r.Unit, "points") { // a rate of points, of whose number the case speaks
				n := 0.0
				if _, err := fmt.Sscanf(r.Case, "topn N=%g", &n); err != nil {
					return "", fmt.Errorf("%s: %s: %w", path, r.Case, err)
				}
				return short(n/r.Value, "s"), nil
			}
			return short(1/r.Value, "s"), nil
		case whole35040:
			return short(35_040/r.Value, "s"), nil
		case whole100000:
			return short(100_000/r.Value, "s"), nil
		case share:
			m := noteShare.FindStringSubmatch(r.Note)
			if m == nil {
				return "", fmt.Errorf("%s: %s: the note names no share", path, r.Case)
			}
			return m[1] + " %", nil
		}
		return short(r.Value, r.Unit), nil
	}
	return "", fmt.Errorf("%s has no line of %q", path, f.shape)
}

// short writes a value to three digits.
func short(v float64, unit string) string {
	switch {
	case unit == "s" && v < 1:
		return fmt.Sprintf("%.3g ms", 1e3*v)
	case v >= 1e6:
		return fmt.Sprintf("%.3g M %s", v/1e6, unit)
	case v >= 1e3:
		return fmt.Sprintf("%.0f,000 %s", v/1e3, unit)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
