// Package tune finds the fastest of a few launch parameters while the worker scores: the first batches of a class of tasks
// take turns with them, each is timed on the device, and the fastest one is kept, in a file too. No batch is executed for
// that, and none has another result.
package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	timings  = 2  // of each choice: the least counts, since a kernel's first launch loads its code
	better   = 97 // percent of the default's time: a choice that takes more is not taken
	mostAsks = 8  // for each choice, in which it may be disturbed by other batches of the device
)

// Key identifies the tasks that have one parameter.
type Key struct {
	Device string `json:"device"`
	SMs    int    `json:"multiprocessors"`
	Class  string `json:"class"`
}

// Try is a choice, and its time.
type Try struct {
	Blocks int           `json:"blocks"` // for each multiprocessor
	Time   time.Duration `json:"ns"`     // the least on the device, copies included, of a batch of the first one's planned cost

	timed int
}

// Choice is what is known of the tasks of a key.
type Choice struct {
	Key
	Blocks int   `json:"blocks"` // for each multiprocessor; 0: not all have been timed
	Tries  []Try `json:"tries"`  // the default first

	cost int // planned, of the first batch that was timed
	asks int
}

// file is the content of a Table's file.
type file struct {
	Kernels string   `json:"kernels"` // their version
	Choices []Choice `json:"choices"`
}

// Table has the choices of all devices. A nil Table gives the defaults.
type Table struct {
	path, kernels string
	log           *slog.Logger

	mu      sync.Mutex
	choices map[Key]*Choice

	saving  sync.Mutex
	savings sync.WaitGroup
}

// Open reads the choices in a file, which may not exist; path "" gives a nil Table. Choices of other kernels than those
// of this version, and a file that is damaged, are left out with a warning, and replaced when there is something to save.
func Open(path, kernels string, log *slog.Logger) *Table {
	if path == "" {
		return nil
	}
	t := &Table{path: path, kernels: kernels, log: log, choices: map[Key]*Choice{}}
	found, err := t.read()
	if err != nil {
		log.Warn("launch parameters of the GPU are not known, and are measured again", "file", path, "err", err)
	}
	for i, c := range found {
		if bad := c.fault(); bad != "" {
			log.Warn("a launch parameter of the GPU is left out", "file", path, "class", c.Class, "err", bad)
			continue
		}
		t.choices[c.Key] = &found[i]
	}
	if len(t.choices) > 0 {
		log.Info("launch parameters of the GPU are known", "file", path, "classes", len(t.choices))
	}
	return t
}

// fault says what is wrong with a choice in a file; "" for nothing.
func (c *Choice) fault() string {
	if c.Blocks <= 0 || !slices.ContainsFunc(c.Tries, func(t Try) bool { return t.Blocks == c.Blocks }) {
		return fmt.Sprintf("%d blocks a multiprocessor is none of the choices", c.Blocks)
	}
	return ""
}

// read returns the choices in the file.
func (t *Table) read() ([]Choice, error) {
	text, err := os.ReadFile(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	if f.Kernels != t.kernels {
		return nil, fmt.Errorf("they are of kernels %q, these are %q", f.Kernels, t.kernels)
	}
	return f.Choices, nil
}

// Choose returns one of some choices, of which the first is the default: the fastest once it is known, before that one to time
// if the batch can be timed.
func (t *Table) Choose(k Key, choices []int, timed bool) int {
	if t == nil {
		return choices[0]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.choices[k]
	if c != nil && !slices.EqualFunc(c.Tries, choices, func(t Try, blocks int) bool { return t.Blocks == blocks }) {
		t.log.Warn("a launch parameter of the GPU is measured again: there are other choices now", "class", k.Class, "was", c.Blocks)
		delete(t.choices, k)
		c = nil
	}
	switch {
	case c != nil && c.Blocks > 0:
		return c.Blocks
	case !timed:
		return choices[0]
	case c == nil:
		c = &Choice{Key: k}
		for _, blocks := range choices {
			c.Tries = append(c.Tries, Try{Blocks: blocks})
		}
		t.choices[k] = c
	}
	if c.asks++; c.gaveUp() {
		c.Blocks = choices[0]
		t.log.Info("a launch parameter of the GPU stays the default: other batches disturb the measurement", "class", k.Class)
		return c.Blocks
	}
	return slices.MinFunc(c.Tries, func(a, b Try) int { return a.timed - b.timed }).Blocks
}

// Note takes the time on the device of a batch of the given planned cost, alone there, with a choice.
func (t *Table) Note(k Key, blocks int, took time.Duration, cost int) {
	if t == nil || took <= 0 || cost <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.choices[k]
	if c == nil || c.Blocks > 0 {
		return
	}
	if c.cost == 0 {
		c.cost = cost
	}
	took = time.Duration(float64(took) * float64(c.cost) / float64(cost))
	for i := range c.Tries {
		if try := &c.Tries[i]; try.Blocks == blocks {
			if try.timed++; try.timed == 1 || took < try.Time {
				try.Time = took
			}
		}
	}
	if slices.ContainsFunc(c.Tries, func(t Try) bool { return t.timed < timings }) {
		return
	}
	best := slices.MinFunc(c.Tries, func(a, b Try) int { return int(a.Time - b.Time) })
	if best.Time*100 > c.Tries[0].Time*better {
		best = c.Tries[0]
	}
	c.Blocks = best.Blocks
	t.log.Info("launch parameter of the GPU", "device", k.Device, "class", k.Class, "blocks a multiprocessor", c.Blocks, "times", c.Times())
	t.savings.Go(t.save)
}

// Times lists the choices with their times, the default first.
func (c *Choice) Times() string {
	var text []string
	for _, t := range c.Tries {
		text = append(text, fmt.Sprintf("%d: %v", t.Blocks, t.Time.Round(time.Microsecond)))
	}
	return strings.Join(text, ", ")
}

// Choices returns what is known so far, by key.
func (t *Table) Choices() (all []Choice) {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.choices {
		copied := *c
		copied.Tries = slices.Clone(c.Tries)
		all = append(all, copied)
	}
	slices.SortFunc(all, byKey)
	return all
}

func byKey(a, b Choice) int {
	return strings.Compare(fmt.Sprint(a.Device, "\n", a.SMs, "\n", a.Class), fmt.Sprint(b.Device, "\n", b.SMs, "\n", b.Class))
}

// Close waits until the file is written.
func (t *Table) Close() {
	if t != nil {
		t.savings.Wait()
	}
}

// save writes the file, with those choices of another worker in it that this one does not have.
func (t *Table) save() {
	t.saving.Lock()
	defer t.saving.Unlock()
	var own []Choice
	for _, c := range t.Choices() {
		if c.Blocks > 0 && !c.gaveUp() {
			own = append(own, c)
		}
	}
	f := file{t.kernels, own}
	if others, err := t.read(); err == nil {
		for _, o := range others {
			if !slices.ContainsFunc(own, func(c Choice) bool { return c.Key == o.Key }) {
				f.Choices = append(f.Choices, o)
			}
		}
	}
	slices.SortFunc(f.Choices, byKey)
	if err := write(t.path, f); err != nil {
		t.log.Warn("launch parameters of the GPU are not saved", "file", t.path, "err", err)
	}
}

// gaveUp reports whether a choice was not found in as many batches as may be disturbed.
func (c *Choice) gaveUp() bool { return c.asks > mostAsks*len(c.Tries) }

// write replaces a file as a whole.
func write(path string, f file) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	text := json.NewEncoder(temporary)
	text.SetEscapeHTML(false)
	text.SetIndent("", "  ")
	err = errors.Join(text.Encode(f), temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}
