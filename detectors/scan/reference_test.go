package scan

import (
	"compress/gzip"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// shared returns the path of data and figures beside the repository.
func shared(t testing.TB) string {
	const file = "data/scan/dev/ny_leukemia_281tracts.csv.gz"
	for up, i := "..", 0; i < 6; up, i = filepath.Join(up, ".."), i+1 {
		if _, err := os.Stat(filepath.Join(up, "shared", file)); err == nil {
			return filepath.Join(up, "shared")
		}
	}
	t.Skip("no ../shared/" + file)
	return ""
}

// TestSaTScan compares ratios with those that SaTScan 9.6 prints for circles, for New York's cases of
// leukaemia.
func TestSaTScan(t *testing.T) {
	total := Sums{552, 1057673}
	clusters := 0
	check := func(b, c, want string) {
		n, _ := strconv.ParseInt(c, 10, 64)
		population, _ := strconv.ParseInt(b, 10, 64)
		llr, _ := strconv.ParseFloat(want, 64)
		clusters++
		if got := ratio(Poisson{}, Above, Sums{n, population}, total); !(math.Abs(got-llr) <= 0.5000001e-6) {
			t.Errorf("%s cases among %s: %.9f, SaTScan has %s", c, b, got, want)
		}
	}
	for _, c := range [][3]string{{"95249", "85", "11.577255"}, {"34083", "38", "9.019716"}, {"78280", "64", "6.114140"},
		{"24571", "25", "4.651839"}} {
		check(c[0], c[1], c[2])
	}
	at := shared(t)
	cluster := regexp.MustCompile(`Population\.+: (\d+)\s+Number of cases\.+: (\d+)\s[^:]*:` +
		`[^:]*:[^:]*:[^:]*:\s*[\d.]+\s+Log likelihood ratio\.+: ([\d.]+)`)
	for _, file := range []string{"satscan_ny_out",
		"scan_test_ny_poisson_circular_cartesian", "scan_test_ny_poisson_circular_cartesian_ubpop_10percent"} {
		text, err := os.ReadFile(filepath.Join(at, "data/scan/oracle", "smerc_tests_"+file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range cluster.FindAllStringSubmatch(string(text), -1) {
			check(m[1], m[2], m[3])
		}
	}
	if clusters < 4+15 {
		t.Errorf("only %d clusters", clusters)
	}
	t.Log(clusters, "clusters")
}

// newYorkUnit is a case in the counts of newYork: they have six digits.
const newYorkUnit = 1_000_000

// newYork returns the census tracts of New York state, cases of leukaemia and population, on a grid
// over their bounding box.
func newYork(t testing.TB, n int) *Grid {
	f, err := os.Open(filepath.Join(shared(t), "data/scan/dev/ny_leukemia_281tracts.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) (values []float64) {
		for i, header := range rows[0] {
			for _, row := range rows[1:] {
				if header == name {
					v, err := strconv.ParseFloat(strings.TrimSpace(row[i]), 64)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, v)
				}
			}
		}
		return values
	}
	place := func(v []float64) []int {
		least, most := v[0], v[0]
		for _, x := range v {
			least, most = min(least, x), max(most, x)
		}
		cells := make([]int, len(v))
		for i, x := range v {
			cells[i] = min(n-1, int((x-least)/(most-least)*float64(n)))
		}
		return cells
	}
	g := newGrid(n, n, func(int, int) (int64, int64) { return 0, 0 })
	x, y, cases, population := place(column("x")), place(column("y")), column("cases"), column("population")
	for i, v := range cases {
		g.Count[y[i]*n+x[i]] += int64(math.Round(v * newYorkUnit))
		g.Baseline[y[i]*n+x[i]] += int64(population[i])
	}
	return g
}

// newYorkRegions are the regions that an independent program found.
var newYorkRegions = []struct {
	n int
	Rectangle
	ratio float64
}{
	{32, Rectangle{1, 8, 17, 18}, 16.436502824},
	{64, Rectangle{0, 4, 58, 59}, 16.792500966},
	{128, Rectangle{4, 34, 71, 76}, 17.568849761},
	{256, Rectangle{8, 65, 144, 152}, 17.568849761},
}

// newYorkIs requires the first region of New York. The program took any of equal rectangles: this one
// may omit rows and columns without counts.
func newYorkIs(t *testing.T, g *Grid, found []Region) {
	t.Helper()
	for _, want := range newYorkRegions {
		if want.n != g.Rows {
			continue
		}
		table := newTable(g)
		if len(found) == 0 || table.sums(want.Rectangle) != found[0].Sums || found[0].compare(want.Rectangle) > 0 ||
			!found[0].Overlaps(want.Rectangle) || !(math.Abs(found[0].Ratio/newYorkUnit-want.ratio) <= 1e-9) {
			t.Errorf("n %d: %v, %.9f, want %v, %.9f", want.n, found, found[0].Ratio/newYorkUnit, want.Rectangle, want.ratio)
		}
	}
}

func TestDefinitionOfNewYork(t *testing.T) {
	g := newYork(t, 32)
	newYorkIs(t, g, Define(g, Poisson{}, Options{}))
	g = newYork(t, 64)
	newYorkIs(t, g, Define(g, Poisson{}, Options{}))
}
