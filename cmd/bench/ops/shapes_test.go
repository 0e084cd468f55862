package ops

import (
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/discord"
)

// TestCaseShapes: every op has cases that are benchmarks, and their shapes can be packed
// and scored, regardless of the elements.
func TestCaseShapes(t *testing.T) {
	exec := detectors.NewCPU(1)
	defer exec.Close()
	for _, op := range detectors.Ops() {
		shapes := caseShapes(op)
		if len(shapes) == 0 {
			t.Errorf("%v has no case that is a benchmark", op)
		}
		for i := range shapes {
			in, err := shapes[i].input()
			if err != nil {
				t.Error(err)
				continue
			}
			batch := exec.Batch()
			if err := in.warmUp(t.Context(), exec, batch, min(2, in.tasks)); err != nil {
				t.Errorf("%s: %v", in.name, err)
			}
			r := batch.Rows(0)
			if op == discord.OpTop { // no score but where a discord is new
				if r.Detail[2] == detectors.NoRow {
					t.Errorf("%s: no discord", in.name)
				}
				r.Scores = nil
			}
			for _, s := range r.Scores {
				if s != s {
					t.Errorf("%s: a score is NaN", in.name)
					break
				}
			}
			exec.Release(batch)
		}
	}
}

// TestReferenceShapes: tasks of shapes with a reference set have it as their model, and scores.
func TestReferenceShapes(t *testing.T) {
	exec := detectors.NewCPU(1)
	defer exec.Close()
	count := 0
	for _, s := range allShapes() {
		if !strings.HasPrefix(s.name, "knn reference ") {
			continue
		}
		count++
		in, err := s.input()
		if err != nil {
			t.Fatal(err)
		}
		batch := exec.Batch()
		if err := in.warmUp(t.Context(), exec, batch, 2); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			r := batch.Rows(i)
			if len(r.Model) < 1024 {
				t.Errorf("%s: a model of %d words", s.name, len(r.Model))
			}
			for _, v := range r.Scores {
				if !(v > 0) || v > 100 { // windows are like the set
					t.Errorf("%s: score %v", s.name, v)
				}
			}
		}
		exec.Release(batch)
	}
	if count < 4 {
		t.Errorf("%d shapes have a reference set", count)
	}
}

// TestSampledShapes: a shape of which only some fresh rows have a score can be packed and scored, and its rate counts samples.
func TestSampledShapes(t *testing.T) {
	exec := detectors.NewCPU(1)
	defer exec.Close()
	count := 0
	for _, s := range allShapes() {
		if !strings.HasPrefix(s.name, "discord ") {
			continue
		}
		in, err := s.input()
		if err != nil {
			t.Fatal(err)
		}
		if in.size.Scores == s.fresh {
			continue
		}
		count++
		batch := exec.Batch()
		if err := in.warmUp(t.Context(), exec, batch, 2); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if scores := batch.Rows(i).Scores; len(scores) >= s.fresh || !(scores[0] > 0) || scores[0] > 1 || s.unit != "samples/s" {
				t.Errorf("%s: scores %v of %d fresh rows, in %s", s.name, scores, s.fresh, s.unit)
			}
		}
		exec.Release(batch)
	}
	if count == 0 {
		t.Error("no shape of discord has fewer scores than fresh rows")
	}
}

// TestShapeNames holds that shapes have names of their own and that each target, variant
// and floor is of one.
func TestShapeNames(t *testing.T) {
	names, ops := map[string]bool{}, map[detectors.Op]bool{}
	for _, s := range allShapes() {
		if names[s.name] {
			t.Errorf("two shapes are named %s", s.name)
		}
		names[s.name], ops[s.op] = true, true
		if _, err := s.det(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if s.floor().by == "" {
			t.Errorf("%s has no floor", s.name)
		}
	}
	for _, s := range slices.Concat(scaleShapes(), aloneShapes()) {
		if !names[s.name] || s.kernel != 0 || s.whole != 0 {
			t.Errorf("%s, of several devices, is no shape or has a target of one", s.name)
		}
	}
	for name := range targets {
		if !names[name] {
			t.Errorf("there is a target of %s, and no such shape", name)
		}
	}
	for name := range variants {
		if !names[name] {
			t.Errorf("there are variants of %s, and no such shape", name)
		}
	}
	for op := range floors {
		if !ops[op] {
			t.Errorf("there is a floor of %v, and no shape", op)
		}
	}
}
