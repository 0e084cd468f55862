package executortest

import (
	"testing"

	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/lof"
)

// LOFTask adds a task of n points and virtuals virtual points, drawn by draw, to a batch.
func LOFTask(t testing.TB, b *detectors.Batch, p lof.OpParams, n, dim, fresh, virtuals int,
	draw func(i int) float32) *detectors.Task {
	t.Helper()
	d, err := lof.New(p)
	if err != nil {
		t.Fatal(err)
	}
	task := detectors.Task{Op: lof.Op, Dim: uint32(dim), Fresh: uint32(fresh)}
	var s []float32
	task.Params = b.Put(d.Params())
	embed := max(p.Embed, 1)
	task.X, s = b.GrowF32((n + embed - 1) * dim)
	for i := range s {
		s[i] = draw(i)
	}
	if virtuals > 0 {
		task.Bins, s = b.GrowF32(virtuals * (dim*embed + 1))
		for i := range s {
			s[i] = draw(i)
			if i >= virtuals*dim*embed {
				s[i] = float32(i%7) / 2
			}
		}
	}
	task.Scores = b.GrowOut(fresh)
	b.Tasks = append(b.Tasks, task)
	return &b.Tasks[len(b.Tasks)-1]
}

// KNNTask adds a task of n points, drawn by draw, to a batch; all are to be scored in a
// tumbling window.
func KNNTask(t testing.TB, b *detectors.Batch, p knn.Params, n, dim, fresh int, draw func(i int) float32) *detectors.Task {
	t.Helper()
	p.Window = max(n, 2*p.K, 2)
	d, err := knn.New(p)
	if err != nil {
		t.Fatal(err)
	}
	task := addPoints(b, d, n, max(p.Embed, 1), dim, fresh, draw)
	if p.Neighbours {
		task.Detail = b.GrowOut(fresh * p.K)
	}
	return task
}

// TopNTask adds a task of op topn with n points of dim values, embedded as p has it, of which the last fresh are
// scored; draw returns the next value of a row.
func TopNTask(t testing.TB, b *detectors.Batch, p knn.TopNParams, n, dim, fresh int, draw func(i int) float32) *detectors.Task {
	t.Helper()
	p.Window = max(n, 2*p.K, 2)
	d, err := knn.NewTopN(p)
	if err != nil {
		t.Fatal(err)
	}
	return addPoints(b, d, n, max(p.Embed, 1), dim, fresh, draw)
}

// addPoints adds a task of a detector to a batch, with the rows of n points of embed rows each.
func addPoints(b *detectors.Batch, d detectors.Detector, n, embed, dim, fresh int, draw func(i int) float32) *detectors.Task {
	task := detectors.Task{Op: d.Op(), Dim: uint32(dim), Fresh: uint32(fresh)}
	var s []float32
	task.Params = b.Put(d.Params())
	task.X, s = b.GrowF32((n + embed - 1) * dim)
	for i := range s {
		s[i] = draw(i)
	}
	task.Scores = b.GrowOut(fresh)
	b.Tasks = append(b.Tasks, task)
	return &b.Tasks[len(b.Tasks)-1]
}
