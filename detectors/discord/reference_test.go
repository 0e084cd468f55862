package discord

import (
	"compress/gzip"
	"encoding/csv"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

// shared returns the path of data and figures beside the repository.
func shared(t testing.TB) string {
	const file = "reference/discord_reference.csv"
	for up, i := "..", 0; i < 6; up, i = filepath.Join(up, ".."), i+1 {
		if _, err := os.Stat(filepath.Join(up, "shared", file)); err == nil {
			return filepath.Join(up, "shared")
		}
	}
	t.Skip("no ../shared/" + file)
	return ""
}

// unzip returns the text of a file.
func unzip(t testing.TB, path ...string) string {
	f, err := os.Open(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// column returns a column of a file of numbers, the first being 1.
func column(t testing.TB, column int, path ...string) (x []float64) {
	for line := range strings.Lines(unzip(t, path...)) {
		if fields := strings.Fields(line); len(fields) >= column {
			v, err := strconv.ParseFloat(fields[column-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			x = append(x, v)
		}
	}
	return x
}

// reference is a row of discord_reference.csv: the first discords of a recording, found by
// an independent program.
type reference struct {
	file   string
	x      []float64
	m      int
	wanted []Discord
}

func references(t testing.TB) (all []reference) {
	at := shared(t)
	f, err := os.Open(filepath.Join(at, "reference", "discord_reference.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s[strings.LastIndexByte(s, ' ')+1:])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, row := range rows[1:] {
		ref := reference{file: row[0] + ", " + row[1] + ", " + row[3], m: number(row[3])}
		ref.x = column(t, number(row[1]), at, "data", "discords", "dev", row[0])
		if len(ref.x) != number(row[2]) {
			t.Fatalf("%s: %d values, the reference has %s", ref.file, len(ref.x), row[2])
		}
		for _, pair := range regexp.MustCompile(`(\d+):([\d.]+)`).FindAllStringSubmatch(row[4], -1) {
			d, _ := strconv.ParseFloat(pair[2], 64)
			ref.wanted = append(ref.wanted, Discord{At: number(pair[1]), Length: ref.m, Distance: d})
		}
		all = append(all, ref)
	}
	if len(all) < 12 {
		t.Fatalf("%d references", len(all))
	}
	return all
}

// sameDiscords requires the same places, and distances within 1e-6.
func sameDiscords(t *testing.T, name string, got, want []Discord) {
	t.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i].At == want[i].At && math.Abs(got[i].Distance-want[i].Distance) <= 1e-6
	}
	if !same {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

// TestDefinitionOfRecordings compares the definition with discords that an independent program found, in whole profiles
// where these are small, else in the distances of the discords.
func TestDefinitionOfRecordings(t *testing.T) {
	whole := 0
	for _, ref := range references(t) {
		if n := len(ref.x); whole == 0 && n*n*ref.m < 4e9 { // some seconds
			sameDiscords(t, ref.file, Define(ref.x, ref.m, Options{}).Top(ref.m, 3), ref.wanted)
			whole++
			continue
		}
		w := windows(ref.x, ref.m)
		var got []Discord
		for _, d := range ref.wanted {
			distance, _ := define(w, d.At, ref.m, Options{})
			got = append(got, Discord{At: d.At, Distance: distance})
		}
		sameDiscords(t, ref.file, got, ref.wanted)
	}
	if whole == 0 {
		t.Error("no whole profile")
	}
}

// merlins are the results of the MATLAB code of MERLIN's authors, under Octave.
var merlins = []struct {
	file       string
	n, m, at   int
	distance   float64
	everyStart bool
}{
	{"qtdbSel100MLII_merlin.txt.gz", 4000, 64, 1306, 7.439692965, true},
	{"qtdbSel100MLII_merlin.txt.gz", 4000, 100, 1370, 5.246626852, false},
	{"qtdbSel100MLII_merlin.txt.gz", 4000, 150, 3242, 5.589768054, false},
	{"TEK16.txt.gz", 5000, 128, 4863, 14.079409683, false},
}

func TestDefinitionOfMERLIN(t *testing.T) {
	at := shared(t)
	for _, c := range merlins {
		x := column(t, 1, at, "data", "discords", "dev", c.file)[:c.n]
		w := windows(x, c.m)
		if c.everyStart {
			got := defineMERLIN(x, Lengths{Min: c.m, Max: c.m}, 1, Options{})
			sameDiscords(t, c.file, got[0], []Discord{{At: c.at, Distance: c.distance}})
			continue
		}
		if d, _ := define(w, c.at, c.m, Options{}); math.Abs(d-c.distance) > 1e-9 {
			t.Errorf("%s, m %d: the distance of %d is %.9f, the authors have %.9f", c.file, c.m, c.at, d, c.distance)
		}
	}
}

// scampVectors are matrix profiles that come with SCAMP.
var scampVectors = []struct{ series, name string }{
	{"randomwalk8K", "randomwalk8K"}, {"randomwalk16K", "randomwalk16K"}, {"randomwalk64K", "randomwalk64K"},
	{"randomwalk64K_nan", "randomwalk64K_nan"},
}

const scampLength = 100

// scampProfile has -1 where SCAMP has no neighbour.
func scampProfile(t testing.TB, at, name string) Profile {
	p := Profile{Distance: column(t, 1, at, "data", "scamp_vectors", "mp_"+name+"_w100.txt.gz")}
	for _, v := range column(t, 1, at, "data", "scamp_vectors", "mpi_"+name+"_w100.txt.gz") {
		p.Nearest = append(p.Nearest, int(v))
	}
	return p
}

// TestDefinitionOfSCAMP compares some distances by the definition with SCAMP's, with SCAMP's exclusion.
func TestDefinitionOfSCAMP(t *testing.T) {
	at, rng := shared(t), seedtest.New(t)
	for _, v := range scampVectors {
		x := column(t, 1, at, "data", "scamp_vectors", v.series+".txt.gz")
		want := scampProfile(t, at, v.name)
		w := windows(x, scampLength)
		if len(w) != len(want.Distance) || len(w) != len(want.Nearest) {
			t.Fatalf("%s: %d subsequences, SCAMP has %d and %d", v.name, len(w), len(want.Distance), len(want.Nearest))
		}
		rows := []int{0, len(w) - 1, want.Top(scampLength, 1)[0].At}
		for range 12 {
			rows = append(rows, rng.IntN(len(w)))
		}
		for _, i := range rows {
			sameAsSCAMP(t, v.name, i, want, func() (float64, int) {
				return define(w, i, scampLength, Options{Exclusion: scampLength / 4})
			})
		}
	}
}

// sameAsSCAMP requires a distance within 1e-6 of SCAMP's and its neighbour. Where SCAMP has no
// distance, because of a NaN, its files have another number.
func sameAsSCAMP(t *testing.T, name string, i int, want Profile, compute func() (float64, int)) {
	t.Helper()
	d, nearest := compute()
	if want.Nearest[i] < 0 || d != d {
		if d == d || nearest >= 0 || want.Nearest[i] >= 0 {
			t.Errorf("%s: subsequence %d has the distance %v to %d, SCAMP says %v to %d", name, i, d, nearest, want.Distance[i], want.Nearest[i])
		}
		return
	}
	tolerance := 1e-6
	if name == "randomwalk64K_nan" {
		tolerance = 2e-6 // SCAMP's distances there are up to 1.61e-6 from those to its own neighbours
	}
	if math.Abs(d-want.Distance[i]) > tolerance || nearest != want.Nearest[i] {
		t.Errorf("%s: subsequence %d has the distance %v to %d, SCAMP says %v to %d", name, i, d, nearest, want.Distance[i], want.Nearest[i])
	}
}
