package faults

import (
	"fmt"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
)

// TestLogControls: what transactions have written is checked against the offsets that they commit; each fault in the logs is noticed.
func TestLogControls(t *testing.T) {
	scores, offsets, log := kafkatest.TP{Topic: "g-scores"}, kafkatest.TP{Topic: "__consumer_offsets"}, kafkatest.TP{Topic: "g-changelog"}
	a, b := producer{7, 1}, producer{8, 0}
	type logs struct {
		ps   *parts
		next map[kafkatest.TP]int64
	}
	write := func(l *logs, tp kafkatest.TP, p producer, places ...at) {
		l.ps.add(tp, p, entry{offset: l.next[tp], places: places})
		l.next[tp]++
	}
	end := func(l *logs, p producer, committed bool, tps ...kafkatest.TP) {
		for _, tp := range tps {
			l.ps.end(tp, p, l.next[tp], committed)
			l.next[tp]++
		}
	}
	// Producer a scores the records 0 to 2, aborts 3, and b scores it.
	whole := func(l *logs) {
		write(l, scores, a, at{0, 0}, at{0, 1})
		write(l, offsets, a, at{0, 2})
		end(l, a, true, scores, offsets)
		write(l, scores, a, at{0, 2})
		write(l, offsets, a, at{0, 3})
		end(l, a, true, scores, offsets)
		write(l, scores, a, at{0, 3})
		end(l, producer{7, 2}, false, scores, offsets)
		write(l, scores, b, at{0, 3})
		write(l, offsets, b, at{0, 4})
		end(l, b, true, offsets, scores)
	}
	for _, x := range []struct {
		name  string
		after func(*logs)
		want  string // "": nothing
	}{
		{"nothing", func(*logs) {}, ""},
		{"an old epoch", func(l *logs) { write(l, log, producer{7, 2}); write(l, log, a); end(l, a, true, log) }, "epoch 1 after epoch 2"},
		{"two epochs", func(l *logs) { write(l, log, a); write(l, log, producer{7, 2}); end(l, producer{7, 2}, true, log) },
			"has the epochs 1 and 2"},
		{"no marker", func(l *logs) { write(l, log, b) }, "is open"},
		{"no offset", func(l *logs) { write(l, scores, b, at{0, 4}); end(l, b, true, scores) }, "no transaction commits the offset"},
		{"another producer's offset", func(l *logs) {
			write(l, scores, b, at{0, 4})
			end(l, b, true, scores)
			write(l, offsets, producer{7, 3}, at{0, 5})
			end(l, producer{7, 3}, true, offsets)
		}, "wrote the score of {0 4}"},
		{"an offset in two transactions", func(l *logs) {
			write(l, scores, b, at{0, 4}, at{0, 5})
			write(l, offsets, b, at{0, 5})
			end(l, b, true, scores, offsets)
			write(l, offsets, b, at{0, 6})
			end(l, b, true, offsets)
		}, "input that two have committed"},
		{"scores in two transactions", func(l *logs) {
			write(l, scores, b, at{0, 4})
			end(l, b, true, scores)
			write(l, scores, b, at{0, 5})
			write(l, offsets, b, at{0, 6})
			end(l, b, true, scores, offsets)
		}, "input that one has committed"},
		{"an offset that goes back", func(l *logs) { write(l, offsets, b, at{0, 3}); end(l, b, true, offsets) }, "offset 3 is committed after 4"},
	} {
		var wrong []string
		l := &logs{next: map[kafkatest.TP]int64{}, ps: newParts(func(format string, args ...any) {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		})}
		whole(l)
		x.after(l)
		var kinds [2][]*part
		for _, p := range l.ps.close() {
			switch p.TP {
			case scores:
				kinds[0] = append(kinds[0], p)
			case offsets:
				kinds[1] = append(kinds[1], p)
			}
		}
		sourced(kinds[0], chains(kinds[1], l.ps.wrong), l.ps.wrong)
		if len(wrong) == 0 != (x.want == "") || !strings.Contains(strings.Join(wrong, "\n"), x.want) {
			t.Errorf("%s: %q, want %q", x.name, wrong, x.want)
		}
	}
}

// TestLogState: the last committed state of each series counts, wherever it was written, and every difference to another state.
func TestLogState(t *testing.T) {
	put := func(key string, offset byte, value string) entry {
		return entry{key: []byte(key), value: append([]byte{8, 1, 0, 0x80 | offset, 1}, value...)}
	}
	ended := []*part{
		{committed: true, records: []entry{put("Oowner", 1, "x"), put("H1", 1, "a"), put("H2", 1, "b"), put("H3", 1, "c")}},
		{records: []entry{put("H1", 2, "aborted")}},
		{committed: true, records: []entry{put("H1", 3, "d"), {key: []byte("H2")}}},
	}
	state := last(ended)[0]
	if len(state) != 2 || state["H1"] != "d" || state["H3"] != "c" {
		t.Fatal(state)
	}
	n := 0
	different(0, state, map[string]string{"H1": "d", "H3": "other", "H4": "e"}, func(string, ...any) { n++ })
	if different(0, state, state, func(string, ...any) { n += 10 }); n != 2 {
		t.Errorf("%d differences, want 2", n)
	}
}

// TestLevels: what grows all the time is noticed, a few spikes and what has stopped growing are not.
func TestLevels(t *testing.T) {
	series := func(f func(i int) float64) []float64 {
		var s []float64
		for i := range 100 {
			s = append(s, f(i))
		}
		return s
	}
	noise := func(i int) float64 { return float64(i * 7919 % 13) }
	spikes := series(func(i int) float64 {
		if i%20 == 19 {
			return 900
		}
		return 100 + noise(i)
	})
	all := levels([][]float64{series(func(i int) float64 { return 100 + float64(i) + noise(i) }), spikes,
		series(func(i int) float64 { return min(10*float64(i), 400) + noise(i) }), nil, series(func(int) float64 { return 0 })})
	for i, want := range []bool{true, false, false, true, false} { // too few samples say nothing
		if all[i].Exceeded != want {
			t.Errorf("%+v", all[i])
		}
	}
	var table strings.Builder
	Levels(&table, all)
	if !strings.Contains(table.String(), "| memory, MB | 180.5 | 209.0 | +2") {
		t.Error(table.String())
	}
}

// TestReadings: a reading has its value in JSON and in Avro, and one that is cut has none.
func TestReadings(t *testing.T) {
	a, v := &avro{id: 7}, 1.5
	for _, value := range []*float64{&v, nil} {
		text := a.encode("s-01", walkStart, value)
		got, err := readingValue(text)
		if err != nil || (got == nil) != (value == nil) || got != nil && *got != v {
			t.Errorf("%v, %v of %x", got, err, text)
		}
	}
	text := a.encode("s-01", walkStart, &v)
	for n := 1; n < len(text)-1; n++ {
		if got, err := readingValue(text[:n]); err == nil {
			t.Errorf("%v of %x", got, text[:n])
		}
	}
	if got, err := readingValue(readingText(2.5)); err != nil || *got != 2.5 {
		t.Errorf("%v, %v", got, err)
	}
}
