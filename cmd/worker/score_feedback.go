package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"odradek/cmd/internal/backtest"
	"odradek/detectors"
	"odradek/detectors/quality"
)

// lessonsSeed places the events that are planted.
const lessonsSeed = 1

// lessons prints what least labels of each kind of a data set's false alarms teach; with fields each field is a series of its own.
func (t terminal) lessons(ctx context.Context, dir, match string, least int, fields bool) error {
	name, format, set, err := readSeries(dir, match)
	if err != nil {
		return err
	}
	if format == quality.TCPDFormat {
		return errors.New("score: a data set of change points does not say which samples are ordinary; use another one with -feedback")
	}
	var originals []int
	alone, line, none := "", "", "" // of fields: a column more
	if fields {
		set, originals = backtest.Fields(set)
		alone, line, none = " lost, each field alone |", "---|", " |"
	}
	fmt.Fprintln(t.out, "| planted | rules | removed, same series | labelled anomalies lost | draws, rules for all series | "+
		"removed, other series | lost |"+alone)
	fmt.Fprintln(t.out, "|---|---|---|---|---|---|---|"+line)
	run := func(set []quality.Series, spans [][]quality.Span) (*backtest.Log, error) {
		d, err := newDataSet(t.environ, name, format, set, "backtest")
		if err != nil {
			return nil, err
		}
		for _, state := range d.states { // the log wants an update of each open anomaly with each sample
			for i := range state.Detectors {
				if r := state.Detectors[i].Events; r != nil {
					each := *r
					each.UpdateEvery, each.UpdateAfter, each.UpdateShare, state.Detectors[i].Events = 1, 0, 0, &each
				}
			}
		}
		log := backtest.NewLog(set, spans, originals)
		d.source.Changes = log.Record
		exec := detectors.NewCPU(runtime.GOMAXPROCS(0))
		_, err = backtest.Run(ctx, &backtest.Config{State: d.state, Executor: exec, Source: d.source})
		return log, errors.Join(err, ctx.Err(), exec.Close())
	}
	log, err := run(set, make([][]quality.Span, len(set)))
	if err != nil {
		return err
	}
	natural := log.Own(least, false)
	for _, vary := range []bool{true, false} {
		var own, others backtest.Measures
		drawn := 0
		for shape := range backtest.Shapes {
			planted, spans := backtest.Plant(set, shape, lessonsSeed, vary)
			if log, err = run(planted, spans); err != nil {
				return err
			}
			mine := log.Own(least, true)
			other, n := log.Others(least, lessonsSeed)
			if vary {
				t.lessonRow(backtest.Shapes[shape].Name, &mine, othersOf(&other, n, fields))
			}
			own.Add(&mine)
			others.Add(&other)
			drawn += n
		}
		name := "**all**"
		if !vary {
			name = "all, as copies of each other but for the amplitude"
		}
		t.lessonRow(name, &own, othersOf(&others, drawn, fields))
	}
	t.lessonRow("nothing: the set's own false alarms of a detector, field and side", &natural, "| |"+none)
	return nil
}

// othersOf returns what rules for all series do, of a number of draws, and with alone what is lost if each has to find all.
func othersOf(m *backtest.Measures, drawn int, alone bool) string {
	removed, lost := m.Intervals()
	text := fmt.Sprintf("%d, %d | %s (%.3f to %.3f) | %s (%.3f to %.3f)", drawn, m.Rules,
		shareOf(m.Removed), removed[0], removed[1], shareOf(m.Lost), lost[0], lost[1])
	if alone {
		text += " | " + shareOf(m.Alone)
	}
	return text
}

func shareOf(s backtest.LessonShare) string {
	return fmt.Sprintf("%d of %d, %.3f", s.Count, s.Of, s.Ratio())
}

// lessonRow prints a row of the table of lessons.
func (t terminal) lessonRow(name string, own *backtest.Measures, others string) {
	removed, lost := own.Intervals()
	fmt.Fprintf(t.out, "| %s | %d | %s (%.3f to %.3f) | %s (%.3f to %.3f) | %s |\n", name, own.Rules,
		shareOf(own.Removed), removed[0], removed[1], shareOf(own.Lost), lost[0], lost[1], others)
}
