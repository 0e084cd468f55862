package backtest

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/internal/table"
)

// Labels are the known anomalies by series key.
type Labels map[string][]Span

// ReadLabels reads labels by the format of the file:
//
//   - CSV with a header: the columns series or key, and from and to (or start and end)
//   - JSON lines, as `worker generate -labels` writes them: sensor, from, to
//   - a JSON object of lists of pairs, as NAB's combined_windows.json: the series is
//     the file's name without its ending, with and without its folder
//
// Times are RFC 3339, 2006-01-02 15:04:05 (UTC), or microseconds since the epoch.
func ReadLabels(file string) (Labels, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("backtest: labels: %w", err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	labels := Labels{}
	first, err := r.Peek(1)
	switch {
	case err != nil:
		err = errors.New("the file is empty")
	case first[0] != '{':
		err = labels.readCSV(r)
	default:
		err = labels.readJSON(r)
	}
	if err != nil {
		return nil, fmt.Errorf("backtest: labels of %s: %w", file, err)
	}
	for _, l := range labels {
		slices.SortFunc(l, func(a, b Span) int { return int(min(1, max(-1, a.From-b.From))) })
	}
	return labels, nil
}

func (l Labels) add(series, from, to string) error {
	a, err := labelTime(from)
	if err != nil {
		return err
	}
	b, err := labelTime(to)
	if err != nil {
		return err
	}
	if b < a {
		return fmt.Errorf("an anomaly of %s that ends at %s before it begins at %s", series, to, from)
	}
	l[series] = append(l[series], Span{a, b})
	return nil
}

func labelTime(s string) (int64, error) {
	for _, layout := range []string{time.RFC3339, time.DateTime} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMicro(), nil
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	return 0, fmt.Errorf("%q is not a time: use RFC 3339, 2006-01-02 15:04:05 or microseconds", s)
}

func (l Labels) readCSV(r io.Reader) error {
	text, err := table.WithoutMark(r)
	if err != nil {
		return err
	}
	c := csv.NewReader(text)
	head, err := c.Read()
	if err != nil {
		return err
	}
	find := func(names ...string) (int, error) {
		for i, h := range head {
			if slices.Contains(names, strings.ToLower(strings.TrimSpace(h))) {
				return i, nil
			}
		}
		return 0, fmt.Errorf("the first line has no column %s", strings.Join(names, " or "))
	}
	series, e1 := find("series", "key", "series_key", "sensor")
	from, e2 := find("from", "start")
	to, e3 := find("to", "end")
	if err := errors.Join(e1, e2, e3); err != nil {
		return err
	}
	for {
		rec, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = l.add(rec[series], strings.TrimSpace(rec[from]), strings.TrimSpace(rec[to]))
		}
		if err != nil {
			line, _ := c.FieldPos(0)
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

func (l Labels) readJSON(r io.Reader) error {
	d := json.NewDecoder(r)
	for n := 1; ; n++ {
		var object map[string]json.RawMessage
		if err := d.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("object %d: %w", n, err)
		}
		if sensor, ok := object["sensor"]; ok {
			var name, from, to string
			if json.Unmarshal(sensor, &name) != nil || json.Unmarshal(object["from"], &from) != nil || json.Unmarshal(object["to"], &to) != nil {
				return fmt.Errorf("object %d: sensor, from and to must be texts", n)
			}
			if err := l.add(name, from, to); err != nil {
				return fmt.Errorf("object %d: %w", n, err)
			}
			continue
		}
		for name, raw := range object {
			var windows [][2]string
			if err := json.Unmarshal(raw, &windows); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			name = strings.TrimSuffix(name, ".csv")
			for _, w := range windows {
				if err := l.add(name, w[0], w[1]); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			if base := path.Base(name); base != name {
				l[base] = append(l[base], l[name]...)
			}
		}
	}
}
