package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// figure is a row of a paper's table: what was published, and lines of the recorded results.
type figure struct {
	what, published string
	file, shape     string // of the results, without .jsonl, and the case
	form            form
	each            []string // what stands for %s in the case, for several values in a row
	base            string   // the case that a gain is over
	note            *regexp.Regexp
}

// form says how a line's value is written.
type form uint8

const (
	rate    form = iota // as it is, with its unit
	million             // the seconds that a million of it take
	once                // the milliseconds that one of it takes
	share               // the share of the distances, or of the ratios, that the note names
	gain                // how much more than the base it does in a time of the processor, which the notes name
	noted               // what the note has
	spent               // the processor time, which the note has
	count               // with the number of range discords, from the note
)

var (
	binned = []string{"exact, all earlier points", "w=128 BINS=0", "w=128 BINS=20", "w=128 BINS=100", "w=1024 BINS=0", "w=1024 BINS=20",
		"w=1024 BINS=100"}
	binnedBatches = []string{"16384, w=128 BINS=0", "16384, w=128 BINS=20", "16384, w=128 BINS=100", "4096, w=1024 BINS=0",
		"4096, w=1024 BINS=20", "4096, w=1024 BINS=100"}
	drawn  = []string{"G2d n=10 k=5", "G2d n=10 k=10", "G2d n=10 k=50", "G3d n=10 k=5", "G3d n=10 k=10", "G3d n=10 k=50"}
	threeK = []string{"5", "10", "50"}
	eachK  = []string{"k=5, BruteForce", "k=5, BruteForce-SH", "k=5, SolvingSet", "k=5, SolvingSet-NDM", "k=5, SolvingSet-NDM-TP",
		"k=50, BruteForce", "k=50, BruteForce-SH", "k=50, SolvingSet", "k=50, SolvingSet-NDM", "k=50, SolvingSet-NDM-TP"}
	fiveWays  = []string{"BruteForce", "BruteForce-SH", "SolvingSet", "SolvingSet-NDM", "SolvingSet-NDM-TP"}
	threeSide = []string{"32", "64", "128"}

	fourWindows = []string{"64", "128", "256", "320"}
	recordings  = []string{"respiration n=24125 m=250 to 250", "power demand n=35040 m=750 to 750", "ECG n=45000 m=200 to 200",
		"ECG-2 n=21600 m=400 to 400"}
	fourRecordings = []string{"respiration", "power demand", "ECG", "ECG-2"}

	walks = []string{"20000", "40000", "80000", "160000"}
	most  = []string{"128", "143", "191", "383"}
)

// paperFigures are the figures of the papers, by number.
var paperFigures = map[string][]figure{
	"000": {
		{what: "all earlier points; w=128, `BINS=0`, 20, 100; w=1,024, the same", file: papersFile, shape: "%s", form: rate,
			each: binned},
		{what: "one GPU, the windows in batches, w=128, `BINS=0`, 20, 100; w=1,024", file: devicePapers, shape: "batch of %s, one GPU",
			form: rate, each: binnedBatches},
		{what: "AUROC", file: papersFile, shape: "%s", form: noted, note: noteAUROC, each: binned},
		{what: "rank correlation with the first", file: papersFile, shape: "%s", form: noted, note: noteRanks,
			each: binned[1:]},
		{what: "memory of a series", file: papersFile, shape: "%s", form: noted, note: noteMemory, each: binned},
	},
	"001": {
		{what: "share of distances, G2d, k=5; 10; 50", published: "0.13; 0.11; 0.15 %", file: papersFile, shape: "G2d n=10 k=%s, SolvingSet",
			form: share, each: threeK},
		{what: "G3d", published: "0.34; 0.40; 0.64 %", file: papersFile, shape: "G3d n=10 k=%s, SolvingSet", form: share, each: threeK},
		{what: "Covtype; here 286,048 rows of it", published: "5.05; 4.07; 6.83 %", file: papersFile,
			shape: "cover n=10 k=%s, SolvingSet", form: share, each: threeK},
		{what: "gain of NDM, a tenth of G2d, k=5; 10; 50; of G3d", published: "+34.2; +15.5; -50.5; +23.2; +11.2; -41.6 %", file: ndmFile,
			shape: "%s, SolvingSet-NDM", form: gain, each: drawn, base: "%s, SolvingSet"},
		{what: "gain of NDM and TP", published: "-5.1; -28.9; -53.4; -16.6; -31.8; -34.2 %", file: ndmFile, shape: "%s, SolvingSet-NDM-TP",
			form: gain, each: drawn, base: "%s, SolvingSet"},
		{what: "gain of NDM; NDM and TP, cover, 286,048 rows, k=5", published: "+59.4; +0.6 %", file: papersFile, shape: "cover n=10 k=5, %s",
			form: gain, each: fiveWays[3:], base: "cover n=10 k=5, SolvingSet"},
		{what: "a core's seconds by BruteForce; -SH; SolvingSet; -NDM; -NDM-TP, a tenth of G2d, k=5", published: "Figure 6", file: ndmFile,
			shape: "G2d n=10 k=5, %s", form: spent, each: fiveWays},
		{what: "shuttle, 49,097 x 9, k=5", file: ndmFile, shape: "shuttle n=10 k=5, %s", form: spent, each: fiveWays},
		{what: "mammography, 11,183 x 6, k=5; 50", file: ndmFile, shape: "mammography n=10 %s", form: spent, each: eachK},
		{what: "one GPU, k=50, 1,000,000 x 2; cover, 286,048 x 10", published: "Figure 7", file: "h200-topn", shape: "topn N=%s, kernel",
			form: once, each: []string{"1000000 d=2 k=50, top 10", "286048 d=10 k=50, top 10, cover"}},
	},
	"002": {
		{what: "SVD-SST, w=320, r=12, 1; 2; 4 GPUs", published: "305 scores/s on 16", file: "h200x4-scale",
			shape: "svdsst w=320 r=12, 16 fresh, Execute, %s GPUs", form: rate, each: []string{"1", "2", "4"}},
		{what: "IKA-SST, 1; 2; 4 GPUs", published: "889,000 scores/s on 16",
			file: "h200x4-scale", shape: "ikasst w=100, 16 fresh, Execute, %s GPUs",
			form: rate, each: []string{"1", "2", "4"}},
		{what: "a million scores of IKA-SST, w=20; 50; 100; 200; 320; 500", published: "Figure 10", file: "h200x4-scale",
			shape: "ikasst w=%s, 16 fresh, Execute, 1 GPUs", form: million, each: []string{"20", "50", "100", "200", "320", "500"}},
		{what: "SVD-SST in its place, r=3, w=100; 320",
			file: "h200x4-scale", shape: "svdsst w=%s r=3, 16 fresh, Execute, 1 GPUs",
			form: million, each: []string{"100", "320"}},
		{what: "IKA-SST beside SVD-SST, r=3, w=100, respiration; power demand; ECG; ECG-2: ranks", file: papersFile,
			shape: "ikasst and svdsst w=100 r=3, %s", form: rate, each: fourRecordings},
		{what: "mean difference of a score", file: papersFile, shape: "ikasst and svdsst w=100 r=3, %s", form: noted, note: noteApart,
			each: fourRecordings},
		{what: "IKA-SST, one core, w=100", published: "Figure 10", file: "epyc-2core", shape: "ikasst-cpu", form: million},
		{what: "one GPU, w=100, 1; 16; 64; 256; 1,024; 16,384 tasks", file: devicePapers,
			shape: "ikasst w=100, %s tasks, one GPU", form: rate, each: []string{"1", "16", "64", "256", "1024", "16384"}},
		{what: "SVD-SST, one core, r=3, 64 tasks, w=64; 128; 256; 320", published: "Figure 6", file: papersFile,
			shape: "svdsst w=%s r=3, 64 tasks, one core", form: rate, each: fourWindows},
		{what: "one GPU, 64 tasks", published: "Figure 6", file: devicePapers, shape: "svdsst w=%s r=3, 64 tasks, one GPU", form: rate,
			each: fourWindows},
		{what: "256 tasks", published: "up to 4.14 times four cores", file: devicePapers,
			shape: "svdsst w=%s r=3, 256 tasks, one GPU", form: rate, each: fourWindows},
	},
	"003": {
		{what: "35,040 values, lengths 48 to 672: a year's recording; random walk; noise", file: "h200-discords",
			shape: "discords N=35040 m=48 to 672, %s, Execute", form: whole35040, each: []string{"recording", "random walk", "noise"}},
		{what: "random walk of 1,000,000, length 512, with a radius; without", published: "Figure 6", file: "h200-discords",
			shape: "discords N=1000000 m=512 to 512%s, Execute", form: million, each: []string{", random walk, with a radius", ""}},
		{what: "100,000, length 512, with a radius", published: "Figure 5", file: "h200-discords",
			shape: "discords N=100000 m=512 to 512, with a radius, Execute", form: whole100000},
		{what: "range discords, one core: respiration; power demand; ECG; ECG-2", published: "Figure 6", file: papersFile,
			shape: "%s, one core", form: count, each: recordings},
		{what: "one GPU", published: "Figure 6", file: devicePapers, shape: "%s, one GPU", form: count, each: recordings},
		{what: "random walk, length 128, n=20,000; 40,000; 80,000; 160,000", published: "Figure 8: proportional", file: devicePapers,
			shape: "random walk n=%s m=128 to 128, one GPU", form: count, each: walks},
		{what: "n=10,000, lengths 128 to 128; 143; 191; 383", published: "Figure 9: proportional", file: devicePapers,
			shape: "random walk n=10000 m=128 to %s, one GPU", form: count, each: most},
		{what: "n=1,000,000, length 512", published: "Figure 6", file: devicePapers,
			shape: "random walk n=1000000 m=512 to 512, one GPU", form: count},
		{what: "left discords, one core, m=64, n=1,024; 4,096; 16,384; 65,536; 100,000", published: "DAMP: 300,000 samples/s", file: papersFile,
			shape: "n=%s m=64", form: rate, each: []string{"1024", "4096", "16384", "65536", "100000"}},
	},
	"004": {
		{what: "BF, Poisson, 32; 64 cells a side, one core", published: "Figure 4", file: papersFile, shape: "Poisson n=%s, BF", form: rate,
			each: threeSide[:2]},
		{what: "DM, 32; 64; 128", published: "up to 90 times BF", file: papersFile, shape: "Poisson n=%s, DM", form: rate, each: threeSide},
		{what: "AX, 32; 64; 128", published: "Figure 6; a GPU 20 times", file: papersFile, shape: "Poisson n=%s, AX", form: rate,
			each: threeSide},
		{what: "op scan, 32; 64; 128", file: papersFile, shape: "Poisson n=%s, op scan", form: rate, each: threeSide},
		{what: "Bernoulli, 64: BF; DM; AX; op scan", file: papersFile, shape: "Bernoulli n=64, %s", form: rate,
			each: scanWays},
		{what: "normal, 64: the same", file: papersFile, shape: "normal n=64, %s", form: rate, each: scanWays},
		{what: "exponential, 64: the same", file: papersFile, shape: "exponential n=64, %s", form: rate, each: scanWays},
		{what: "op scan, 128 x 128, one core, a map", published: "BF 17 min 55 s, an MRI", file: "epyc-2core", shape: "scan-cpu", form: once},
		{what: "one GPU, 128 x 128, a map", published: "BF 66 s, AX 24 s, an MRI",
			file: "h100-scan", shape: "scan n=128, one map, Execute", form: once},
		{what: "the same with 999 random maps", file: "h100-scan", shape: "scan n=128, 999 replicates, one map, Execute",
			form: once},
		{what: "8 maps a batch, Poisson; Bernoulli; normal; exponential", file: devicePapers, shape: "scan n=128%s, Execute",
			form: rate, each: []string{"", ", Bernoulli", ", normal", ", exponential"}},
		{what: "512 x 512, one GPU; two", published: "3 times", file: "h200x2-scan",
			shape: "scan n=512, one map, one batch at a time, %s GPUs", form: once, each: []string{"1", "2"}},
	},
}

var scanWays = []string{"BF", "DM", "AX", "op scan"}

// The files of results of benchmarks that papers alone need.
const (
	papersFile   = "xeon-2core-papers"
	ndmFile      = "xeon-2core-ndm"
	devicePapers = "h200-papers"
)

// The forms of what takes as long as a number of samples.
const (
	whole35040 form = 100 + iota
	whole100000
)

const papersAbout = `Prints the tables of docs/papers.md: what the papers have published beside figures of docs/benchmarks/results.

usage: bench papers [-results FOLDER] [000 001 002 003 004]
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
		numbers = slices.Sorted(maps.Keys(paperFigures))
	}
	for _, n := range numbers {
		if paperFigures[n] == nil {
			fmt.Fprintf(t.err, "bench: papers: no table of paper %q; use 000 to 004\n", n)
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
	fmt.Fprint(w, "| | published | here |\n|---|---|---|\n")
	for i := range list {
		f := &list[i]
		ours, err := f.measured(folder)
		if err != nil {
			return err
		}
		if _, err = fmt.Fprintf(w, "| [%s](benchmarks/results/%s.jsonl) | %s | %s |\n", f.what, f.file, f.published, ours); err != nil {
			return err
		}
	}
	return nil
}

var (
	noteShare = regexp.MustCompile(`([\d.e-]+)% of the (distances|ratios)`)
	noteCount = regexp.MustCompile(`(\d+) range discords`)
	noteSpent = regexp.MustCompile(`([\d.]+) s of processor time`)

	noteAUROC  = regexp.MustCompile(`AUROC ([\d.]+)`)
	noteRanks  = regexp.MustCompile(`rank correlation with exact LOF ([\d.]+)`)
	noteApart  = regexp.MustCompile(`([\d.]+) apart`)
	noteMemory = regexp.MustCompile(`([\d.]+ KB)`)
)

// measured returns the figure's own values, from the results.
func (f *figure) measured(folder string) (string, error) {
	path := filepath.Join(folder, f.file+".jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	each := f.each
	if each == nil {
		each = []string{""}
	}
	values := make([]string, len(each))
	for i, s := range each {
		r, err := lineOf(path, lines, strings.Replace(f.shape, "%s", s, 1))
		if err != nil {
			return "", err
		}
		var base resultLine
		if f.base != "" {
			if base, err = lineOf(path, lines, strings.Replace(f.base, "%s", s, 1)); err != nil {
				return "", err
			}
		}
		if values[i], err = f.written(&r, &base); err != nil {
			return "", fmt.Errorf("%s: %s: %w", path, r.Case, err)
		}
	}
	return joined(values), nil
}

// joined lists values, with their unit once where all have the same.
func joined(values []string) string {
	unit := values[0][strings.LastIndex(values[0], " ")+1:]
	if !slices.ContainsFunc(values, func(v string) bool { return !strings.HasSuffix(v, " "+unit) }) {
		for i := range values[:len(values)-1] {
			values[i] = strings.TrimSuffix(values[i], " "+unit)
		}
	}
	return strings.Join(values, "; ")
}

// resultLine is a line of the results.
type resultLine struct {
	Name, Case, Unit, Note string
	Value                  float64
}

// lineOf returns the last of the lines with a case, or of a benchmark without cases.
func lineOf(path string, lines []string, shape string) (r resultLine, err error) {
	for _, line := range slices.Backward(lines) { // the last measurement counts
		r = resultLine{}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return r, fmt.Errorf("%s: %w", path, err)
		}
		if r.Value != 0 && (r.Case == shape || r.Case == "" && r.Name == shape) {
			return r, nil
		}
	}
	return r, fmt.Errorf("%s has no line of %q", path, shape)
}

// written writes a line's value; base is the line that a gain is over.
func (f *figure) written(r, base *resultLine) (string, error) {
	switch f.form {
	case million:
		return short(1e6/r.Value, "s"), nil
	case once:
		if strings.HasPrefix(r.Unit, "points") { // a rate of points, of whose number the case speaks
			n := 0.0
			if _, err := fmt.Sscanf(r.Case, "topn N=%g", &n); err != nil {
				return "", err
			}
			return short(n/r.Value, "s"), nil
		}
		return short(1/r.Value, "s"), nil
	case whole35040:
		return short(35_040/r.Value, "s"), nil
	case whole100000:
		return short(100_000/r.Value, "s"), nil
	case gain:
		var spent [2]float64
		for i, line := range []*resultLine{r, base} {
			m := noteSpent.FindStringSubmatch(line.Note)
			if m == nil {
				return "", errors.New("the note lacks the processor time")
			}
			spent[i], _ = strconv.ParseFloat(m[1], 64)
		}
		return fmt.Sprintf("%+.0f %%", 100*(spent[1]/spent[0]-1)), nil
	case noted, share, count, spent:
		what, unit := f.note, ""
		switch f.form {
		case spent:
			what, unit = noteSpent, " s"
		case share:
			what, unit = noteShare, " %"
		case count:
			what, unit = noteCount, " in "+short(r.Value, r.Unit)
		}
		m := what.FindStringSubmatch(r.Note)
		if m == nil {
			return "", errors.New("the note lacks the figure")
		}
		return m[1] + unit, nil
	}
	return short(r.Value, r.Unit), nil
}

// short writes a value to three digits.
func short(v float64, unit string) string {
	switch {
	case unit == "s" && v < 1:
		return fmt.Sprintf("%.3g ms", 1e3*v)
	case v >= 1e6:
		return fmt.Sprintf("%.3g M %s", v/1e6, unit)
	case v >= 1e3:
		digits := 1.0
		for digits*1000 <= v {
			digits *= 10
		}
		n := int(math.Round(v/digits) * digits)
		return fmt.Sprintf("%d,%03d %s", n/1000, n%1000, unit)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
