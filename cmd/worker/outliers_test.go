package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/table"
	"odradek/detectors/knn"
	"odradek/detectors/seedtest"
)

// writeTable writes a table of numbers in the format of the path's ending.
func writeTable(t *testing.T, path string, names []string, rows [][]float64) {
	t.Helper()
	var columns []table.Column
	for _, n := range names {
		columns = append(columns, table.Column{Name: n, Kind: table.Number})
	}
	w, err := table.Create(path, "Row", columns)
	must(t, err)
	for _, r := range rows {
		values := make([]table.Value, len(r))
		for c, v := range r {
			values[c].Number = v
		}
		must(t, w.Row(values))
	}
	must(t, w.Close())
}

// tableResult runs a command on a table and returns what it prints with -json, and its notes.
func tableResult[R any](t *testing.T, command func(terminal, context.Context, []string) int, args ...string) (r R, notes string) {
	t.Helper()
	term, out, errs := console(os.Environ()...)
	if code := command(term, context.Background(), append(args, "-json")); code != exitOK {
		t.Fatalf("%q: exit %d: %s", args, code, errs)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return r, errs.String()
}

func outliersOf(t *testing.T, args ...string) outliersResult {
	t.Helper()
	r, _ := tableResult[outliersResult](t, terminal.outliers, append(args, "-quiet")...)
	return r
}

// TestOutliers holds every algorithm to the weights of the definition, over random tables with ties, duplicates and fewer rows
// than neighbours, in each format; the solving set is a reference set of op knn. The search of a GPU's child finds the same.
func TestOutliers(t *testing.T) {
	rnd := seedtest.New(t)
	t.Setenv("ODRADEK_CUDA_CHILD", goChildProgram(t))
	byGPU := 0
	for round := range 12 {
		n, dim, grain := 2+rnd.IntN(200), 1+rnd.IntN(3), []float64{0, 0.1, 1}[round%3]
		names, rows := []string{"a", "b", "c"}[:dim], make([][]float64, n)
		var x []float64
		for i := range rows {
			for range dim {
				v := rnd.NormFloat64()
				if grain > 0 {
					v = grain * float64(rnd.IntN(8))
				}
				rows[i] = append(rows[i], v)
			}
			x = append(x, rows[i]...)
		}
		path := filepath.Join(t.TempDir(), "t"+[]string{".csv", ".parquet", ".avro"}[rnd.IntN(3)])
		writeTable(t, path, names, rows)
		k, top, self := 1+rnd.IntN(30), 1+rnd.IntN(15), rnd.IntN(2) == 0
		want, err := knn.Algorithms[0].Find(x, dim, knn.TopParams{N: top, K: k, Self: self})
		must(t, err)
		args := []string{path, "-n", strconv.Itoa(top), "-k", strconv.Itoa(k), fmt.Sprintf("-include-self=%v", self)}
		for _, algorithm := range []string{"", "cuda", "BruteForce", "bruteforce-sh", "SolvingSet", "SolvingSet-NDM", "SolvingSet-NDM-TP"} {
			all := args
			set := filepath.Join(t.TempDir(), "set.csv")
			switch algorithm {
			case "":
			case "cuda":
				all, algorithm = append(slices.Clone(args), "-executor", "cuda"), ""
			default:
				all = append(slices.Clone(args), "-algorithm", algorithm)
			}
			if strings.HasPrefix(algorithm, "Solving") {
				all = append(all, "-solving-set", set)
			}
			got := outliersOf(t, all...)
			if strings.Contains(got.Algorithm, "GPU") {
				byGPU++
			}
			if got.Rows != n || len(got.Outliers) != len(want.Outliers) || algorithm != "" && !strings.EqualFold(got.Algorithm, algorithm) {
				t.Fatalf("%q: %+v", all, got)
			}
			for i, o := range got.Outliers {
				if w := want.Outliers[i]; o.Row != int64(w.At)+1 || o.Weight != w.Weight || !slices.Equal(o.Values, rows[w.At]) {
					t.Fatalf("%q: outlier %d is %+v, want %+v", all, i, o, w)
				}
			}
			if len(got.SolvingSet) == 0 {
				continue
			}
			values, err := config.ReadReference(set, names)
			must(t, err)
			var wantValues []float64
			for _, row := range got.SolvingSet {
				wantValues = append(wantValues, rows[row-1]...)
			}
			if !slices.Equal(values, wantValues) {
				t.Errorf("%q: the solving set's file has other rows", all)
			}
		}
	}
	if byGPU < 8 {
		t.Errorf("a GPU searched %d of 12 tables", byGPU)
	}
}

// TestOutliersOfATable: rows keep their numbers where others are left out, columns are scaled, and the tables have a row for each
// outlier.
func TestOutliersOfATable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	text := "name,time,bar,rpm\npump,1,1,1000\npump,2,1.1,\npump,3,1.2,3000\npump,4,9,2000\npump,5,1.05,5000\npump,6,1.15,4000\n"
	must(t, os.WriteFile(path, []byte(text), 0o600))
	args := []string{"-missing", "skip", path, "-k", "2", "-n", "1"}
	if r := outliersOf(t, args...); r.Outliers[0].Row != 5 && r.Outliers[0].Row != 1 || r.LeftOut != 1 || r.Rows != 5 ||
		!slices.Equal(r.Columns, []string{"bar", "rpm"}) {
		t.Errorf("%+v", r)
	}
	for _, scale := range []string{"deviation", "range"} {
		r := outliersOf(t, append(args, "-scale", scale)...)
		if r.Outliers[0].Row != 4 || !slices.Equal(r.Outliers[0].Values, []float64{9, 2000}) {
			t.Errorf("-scale %s: %+v", scale, r)
		}
	}
	term, out, errs := console()
	args = []string{path, "-columns", "rpm,bar", "-missing=skip", "-csv", "-n", "99"}
	if code := term.outliers(context.Background(), args); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	all, err := csv.NewReader(bytes.NewReader(out.Bytes())).ReadAll()
	must(t, err)
	if len(all) != 6 || strings.Join(all[0], ",") != "rank,row,weight,rpm,bar" || all[5][0] != "5" ||
		!strings.Contains(errs.String(), "left out: 1 rows") {
		t.Errorf("%q; %s", all, errs)
	}
	term, out, errs = console()
	if code := term.outliers(context.Background(), []string{path, "-columns", "bar"}); code != exitOK ||
		!strings.Contains(out.String(), "6 of 6 rows by kd-tree, k=10, columns bar") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestOutliersRefuses: what a flag or a table lacks is said, with what can be done.
func TestOutliersRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	must(t, os.WriteFile(path, []byte("name,bar\npump,1\nvalve,\n"), 0o600))
	far := filepath.Join(t.TempDir(), "far.csv")
	must(t, os.WriteFile(far, []byte("bar\n1e308\n-1e308\n5\n"), 0o600))
	for args, want := range map[string]string{
		"":                     "name a file that ends with .csv, .csv.gz, .parquet, .avro",
		"FILE FILE":            "one file at a time",
		"FILE -algorithm fast": "use one of kd-tree, BruteForce, BruteForce-SH, SolvingSet",
		"FILE -solving-set s":  "kd-tree has none; add -algorithm SolvingSet",
		"FILE -k 2000":         "use 1 to 1024",
		"FILE -n 0":            "-n 0: use 1 to",
		"FILE -scale log":      "use none, deviation or range",
		"FILE -missing fill":   "use skip or refuse",
		"FILE -json -csv":      "exclude each other",
		"FILE -workers 0":      "-workers is above 0",
		"FILE":                 "row 2, column bar has no finite number, as 1 of 2 rows: -missing skip leaves these rows out",
		"FILE -missing skip":   "has 1 rows to compare, use 2 or more",
		"FILE -columns name":   `column "name": row 1 has the text "pump"; columns of numbers are bar`,
		"FILE -memory 16B":     "allow more with -memory",
		"FILE.xls":             "the name ends with none of",
		"FILE -memory much":    `"much" is not a size: write it as 512MiB or 1.5GiB`,
		"FAR":                  "row 1 is farther from others than a float64 can say",
		"FAR -algorithm SolvingSet -solving-set /nowhere/s.csv": "-solving-set /nowhere/s.csv: stat /nowhere: no such file or directory: make",
		"FILE -columns bar -k 1 -n 1":                           "no finite number",
		"FILE -executor gpu":                                    "use one of auto, cpu, cuda",
		"FILE -executor cuda -algorithm BruteForce":             "BruteForce runs on the CPU; leave out -algorithm",
		"testdata/presses.csv -executor cuda":                   "outliers: -executor cuda: no program",
		"testdata/presses.csv -executor cuda -k 200":            "a GPU takes up to 64 columns, -k 128 and -n 1000; use auto or cpu",
	} {
		term, out, errs := console()
		words := strings.Fields(strings.NewReplacer("FILE", path, "FAR", far).Replace(args))
		if code := term.outliers(context.Background(), words); code == exitOK || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit %d: %s%s, want %s", args, code, out, errs, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	term, _, errs := console()
	if code := term.outliers(ctx, []string{path, "-missing", "skip"}); code != exitFailed {
		t.Errorf("stopped: exit %d: %s", code, errs)
	}
}

// TestReadmeTables runs README's commands on tables, of the files that the repository has.
func TestReadmeTables(t *testing.T) {
	term, out, errs := console()
	known := map[string]func(context.Context, []string) int{"outliers": term.outliers, "regions": term.regions, "discords": term.discords}
	t.Chdir(filepath.Join("..", ".."))
	ran := map[string]bool{}
	for _, line := range docCommands(t, "README.md") {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "bin/worker" || known[words[1]] == nil {
			continue
		}
		for i, w := range words { // nothing is written into the repository
			if strings.HasSuffix(w, ".svg") {
				words[i] = filepath.Join(t.TempDir(), w)
			}
		}
		ran[words[1]] = true
		out.Reset()
		if code := known[words[1]](context.Background(), words[2:]); code != exitOK {
			t.Errorf("%s: exit %d: %s", line, code, errs)
		}
		// The rows of presses.csv with planted faults.
		if got := out.String(); words[1] == "outliers" && !(strings.Contains(got, " 137 ") && strings.Contains(got, " 321 ") &&
			strings.Contains(got, " 412 ")) {
			t.Errorf("%s: %s", line, got)
		}
		// The blocks of districts.csv with other rates: x 5 to 8, y 9 to 12, and x 16 to 20, y 2 to 5.
		if got := strings.Join(strings.Fields(out.String()), " "); words[1] == "regions" && !(strings.Contains(got, " 5 8 9 12 16 ") &&
			strings.Contains(got, " 16 20 2 5 20 ")) {
			t.Errorf("%s: %s", line, got)
		}
		// The half day of demand.csv at half of the load.
		if got := out.String(); words[1] == "discords" && !strings.Contains(got, " 1039-1053 ") {
			t.Errorf("%s: %s", line, got)
		}
	}
	if len(ran) < len(known) {
		t.Errorf("README has no command for all of %d: %v", len(known), ran)
	}
}
