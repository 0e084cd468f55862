package tune

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
)

var choices = []int{8, 2, 4, 16}

// said is a log.
func said() (*bytes.Buffer, *slog.Logger) {
	var b bytes.Buffer
	return &b, slog.New(slog.NewTextHandler(&b, nil))
}

// measure times batches of random costs until a choice is found, and returns it with the number of batches. times are of
// choices, for a cost of 1,000,000.
func measure(t *testing.T, table *Table, k Key, rng *rand.Rand, times map[int]time.Duration) (blocks, batches int) {
	t.Helper()
	for batches = 0; batches < 1000; batches++ {
		known := slices.IndexFunc(table.Choices(), func(c Choice) bool { return c.Key == k && c.Blocks > 0 })
		if known >= 0 {
			return table.Choices()[known].Blocks, batches
		}
		blocks := table.Choose(k, choices, true)
		cost := 1_000_000 + rng.IntN(1_000_000)
		took := times[blocks] * time.Duration(cost) / 1_000_000
		if batches < len(choices) { // the first launches load code
			took *= time.Duration(1 + rng.IntN(4))
		}
		table.Note(k, blocks, took, cost)
	}
	t.Fatal("no choice after 1,000 batches")
	return 0, 0
}

// TestTable finds the fastest of random times in two batches for each choice, and keeps the default where the fastest is
// less than 3 % faster. A second table reads the file and times nothing.
func TestTable(t *testing.T) {
	rng := seedtest.New(t)
	path := filepath.Join(t.TempDir(), "tuning.json")
	log, to := said()
	table := Open(path, "a", to)
	want := map[Key]int{}
	for i := range 40 {
		k := Key{[]string{"GPU", "other"}[i%2], 132, fmt.Sprint("class ", i/2)}
		times := map[int]time.Duration{}
		fastest := choices[0]
		for _, c := range choices {
			times[c] = 100_000 + time.Duration(rng.IntN(20_000))
		}
		for _, c := range choices {
			if times[c] < times[fastest] {
				fastest = c
			}
		}
		if margin := float64(times[fastest]) / float64(times[choices[0]]); margin > 0.9699 {
			if margin < 0.9701 {
				continue
			}
			fastest = choices[0]
		}
		want[k] = fastest
		if got := table.Choose(k, choices, false); got != choices[0] {
			t.Fatalf("%v is %d before any batch was timed, want the default", k, got)
		}
		blocks, batches := measure(t, table, k, rng, times)
		if blocks != fastest || batches != 2*len(choices) {
			t.Errorf("of times %v, %d is found after %d batches, want %d after %d", times, blocks, batches, fastest, 2*len(choices))
		}
	}
	table.Close()
	if n := strings.Count(log.String(), "launch parameter of the GPU\""); n != len(want) {
		t.Errorf("the log says %q, want %d choices", log.String(), len(want))
	}
	for _, temporary := range []string{"*", ".*"} {
		if found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), temporary)); len(found) > 1 {
			t.Errorf("there are %q", found)
		}
	}

	again := Open(path, "a", to)
	defer again.Close()
	for k, blocks := range want {
		if got := again.Choose(k, choices, true); got != blocks {
			t.Errorf("%v is %d in a second table, want %d", k, got, blocks)
		}
	}
	same := func(a, b Choice) bool { return a.Key == b.Key && a.Times() == b.Times() }
	if a, b := table.Choices(), again.Choices(); !slices.EqualFunc(a, b, same) {
		t.Errorf("a second table has %+v, want %+v", b, a)
	}
}

// TestShared has two tables with one file, each with a choice of its own: the file has both.
func TestShared(t *testing.T) {
	rng := seedtest.New(t)
	path := filepath.Join(t.TempDir(), "tuning.json")
	_, to := said()
	tables := []*Table{Open(path, "a", to), Open(path, "a", to)}
	for i, table := range tables {
		measure(t, table, Key{"GPU", 132, fmt.Sprint(i)}, rng, map[int]time.Duration{8: 9, 2: 8, 4: 7, 16: 8})
		table.Close()
	}
	if got := Open(path, "a", to).Choices(); len(got) != 2 {
		t.Errorf("the file has %+v, want the choices of both", got)
	}
}

// TestFiles reads damaged files, files of other kernels and files that cannot be read or written: a warning, and what is
// valid counts.
func TestFiles(t *testing.T) {
	rng := seedtest.New(t)
	k := Key{"GPU", 132, "class"}
	entry := func(blocks int, tries ...int) string {
		text := fmt.Sprintf(`{"device":"GPU","multiprocessors":132,"class":"class","blocks":%d,"tries":[`, blocks)
		for i, b := range tries {
			text += strings.Repeat(",", min(i, 1)) + fmt.Sprintf(`{"blocks":%d,"ns":1000}`, b)
		}
		return text + "]}"
	}
	whole := func(kernels, entries string) string {
		return `{"kernels":"` + kernels + `","choices":[` + entries + "]}"
	}
	good := whole("a", entry(4, choices...))
	for _, c := range []struct {
		name, text string
		want       int
		says       string
	}{
		{"good", good, 4, "level=INFO"},
		{"empty", "", 8, "unexpected end"},
		{"cut", good[:1+rng.IntN(len(good)-1)], 8, "level=WARN"},
		{"not JSON", "kernels: a", 8, "invalid character"},
		{"other kernels", whole("b", entry(4, choices...)), 8, "kernels"},
		{"zero", whole("a", entry(0, choices...)), 8, "0 blocks a multiprocessor"},
		{"negative", whole("a", entry(-4, choices...)), 8, "-4 blocks a multiprocessor"},
		{"no choice", whole("a", entry(5, choices...)), 8, "5 blocks a multiprocessor"},
		{"huge", whole("a", entry(4_000_000, choices...)), 8, "4000000 blocks a multiprocessor"},
		{"other choices", whole("a", entry(7, 8, 7)), 8, "other choices"},
		{"a bad one and a good one", whole("a", strings.Replace(entry(0, 8), "class\",", "bad\",", 1)+","+entry(4, choices...)), 4, "bad"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tuning.json")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			log, to := said()
			table := Open(path, "a", to)
			if got := table.Choose(k, choices, false); got != c.want {
				t.Errorf("%s: %d, want %d", c.text, got, c.want)
			}
			if !strings.Contains(log.String(), c.says) {
				t.Errorf("%s: the log says %q, want %q", c.text, log.String(), c.says)
			}
			measure(t, table, Key{"GPU", 132, "another"}, rng, map[int]time.Duration{8: 900, 2: 800, 4: 700, 16: 800})
			table.Close()
			if again := Open(path, "a", to); again.Choose(Key{"GPU", 132, "another"}, choices, false) != 4 {
				t.Errorf("%s: not replaced by a valid file", c.text)
			}
		})
	}
	t.Run("not there", func(t *testing.T) {
		log, to := said()
		table := Open(filepath.Join(t.TempDir(), "none", "tuning.json"), "a", to)
		if blocks, _ := measure(t, table, k, rng, map[int]time.Duration{8: 900, 2: 800, 4: 700, 16: 800}); blocks != 4 {
			t.Errorf("%d, want 4", blocks)
		}
		table.Close()
		if !strings.Contains(log.String(), "not saved") || strings.Count(log.String(), "WARN") != 1 {
			t.Errorf("the log says %q, want one warning", log.String())
		}
	})
	t.Run("none", func(t *testing.T) {
		var table *Table
		table.Note(k, 8, 1, 1)
		if got := table.Choose(k, choices, true); got != 8 || table.Choices() != nil {
			t.Errorf("%d, want the default", got)
		}
		table.Close()
	})
}

// TestDisturbed gives up where no batch is alone long enough to be timed: the default, which is not saved.
func TestDisturbed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuning.json")
	log, to := said()
	table := Open(path, "a", to)
	k := Key{"GPU", 132, "class"}
	for i := range mostAsks * len(choices) {
		if blocks := table.Choose(k, choices, true); i%3 == 0 && blocks == 8 {
			table.Note(k, blocks, 1000, 1000)
		}
	}
	if got := table.Choose(k, choices, true); got != 8 || !strings.Contains(log.String(), "stays the default") {
		t.Errorf("%d, and the log says %q", got, log.String())
	}
	measure(t, table, Key{"GPU", 132, "another"}, seedtest.New(t), map[int]time.Duration{8: 900, 2: 800, 4: 700, 16: 800})
	table.Close()
	if got := Open(path, "a", to).Choices(); len(got) != 1 {
		t.Errorf("the file has %+v, want one choice", got)
	}
}
