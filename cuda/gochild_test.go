//go:build linux

package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"odradek/cuda/child"
	"odradek/cuda/kernels"
	"odradek/cuda/plan"
	"odradek/detectors"
	"odradek/detectors/knn"
	"odradek/detectors/scan"
	"odradek/detectors/sst"
	"odradek/detectors/vec"
)

// The child of these tests is this test binary: it speaks the protocol and updates the tasks of the
// plan, as its launches and tiles name them, with the CPU forms, on copies of the two blocks, as a
// device does. So it checks the plan, and its results are the CPU's to the bit.
//
// Its environment names its faults: childFault is a fault and the number of the execute request at
// which it happens ("die@3"), childOnce a file that is made then, so that the fault happens once among
// all children with that file.
const (
	childMode  = "ODRADEK_TEST_CUDA_CHILD"
	childFault = "ODRADEK_TEST_CUDA_FAULT"
	childOnce  = "ODRADEK_TEST_CUDA_ONCE"

	childMore   = "ODRADEK_TEST_CUDA_MORE"   // rounds of IKA-SST's tasks, 0 or nothing: one
	childShared = "ODRADEK_TEST_CUDA_SHARED" // KiB of shared memory of its device, 0 or nothing: unknown
)

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		(&goChild{maps: map[uint32][]byte{}}).run()
	}
	code := m.Run()
	if builtHere != "" {
		os.RemoveAll(builtHere)
	}
	os.Exit(code)
}

// goChildOptions returns the options of an executor on a Go child. With the race detector a program
// takes a second to end by default.
func goChildOptions(t testing.TB, fault string) Options {
	o := Options{Child: os.Args[0], Env: []string{childMode + "=1", "GORACE=" + os.Getenv("GORACE") + " atexit_sleep_ms=0"},
		Deadline: time.Minute,                     // so that a busy machine loses no batch, under the race detector either
		Retry:    50 * time.Millisecond, Lanes: 4} // three batches at a time use one of the first two lanes, which get the garbage
	if fault != "" {
		o.Env = append(o.Env, childFault+"="+fault, childOnce+"="+filepath.Join(t.TempDir(), "once"))
	}
	return o
}

// slowFor is the time that a slow child takes for a batch.
const slowFor = 1200 * time.Millisecond

type goChild struct {
	mu       sync.Mutex
	maps     map[uint32][]byte
	executes atomic.Int64
	models   []byte
}

func (c *goChild) run() {
	if os.Getenv(childFault) == "nodevice" {
		fmt.Fprintln(os.Stderr, "no CUDA-capable device is detected")
		os.Exit(1)
	}
	if os.Getenv(childFault) == "killed" { // while it starts, once
		if f, err := os.OpenFile(os.Getenv(childOnce), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	lanes, err := strconv.Atoi(os.Args[slices.Index(os.Args, "-lanes")+1])
	if err != nil {
		os.Exit(2)
	}
	for i := range lanes {
		f := os.NewFile(uintptr(3+i), "lane")
		go func() {
			for {
				var m [child.MessageBytes]byte
				if _, err := io.ReadFull(f, m[:]); err != nil {
					os.Exit(0) // the parent has ended
				}
				r := c.answer(f, &m)
				encodeReply(&m, &r)
				if _, err := f.Write(m[:]); err != nil {
					os.Exit(0)
				}
			}
		}()
	}
	select {}
}

func encodeReply(m *[child.MessageBytes]byte, r *child.Reply) {
	clear(m[:])
	le := binary.LittleEndian
	le.PutUint32(m[0:], child.Magic)
	le.PutUint32(m[4:], r.Seq)
	le.PutUint32(m[8:], r.Code)
	le.PutUint64(m[16:], r.Nanos)
	le.PutUint64(m[24:], r.A)
	le.PutUint64(m[32:], r.B)
	copy(m[40:], r.Text)
}

func decodeRequest(m *[child.MessageBytes]byte) (q child.Request) {
	le := binary.LittleEndian
	q.Kind, q.Batch, q.Launches = child.Kind(le.Uint32(m[4:])), le.Uint32(m[8:]), le.Uint32(m[12:])
	for i, p := range []*uint64{&q.InOff, &q.InBytes, &q.TasksOff, &q.TilesOff, &q.LaunchesOff, &q.OutOff, &q.OutBytes, &q.StatusOff,
		&q.Tasks, &q.ScratchBytes} {
		*p = le.Uint64(m[16+8*i:])
	}
	for i, p := range []*uint64{&q.InFrom, &q.InTo, &q.OutFrom, &q.OutTo, &q.Room} {
		*p = le.Uint64(m[112+8*i:])
	}
	q.CopyOut, q.Seq = m[96] != 0, le.Uint32(m[100:])
	q.Rounds, q.Zeroes, q.ZeroesOff, q.RoundLimit = le.Uint32(m[152:]), le.Uint32(m[156:]), le.Uint64(m[160:]), le.Uint64(m[168:])
	q.UploadsOff, q.Models, q.Uploads = le.Uint64(m[176:]), le.Uint32(m[184:]), le.Uint32(m[188:])
	return q
}

func (c *goChild) answer(f io.Reader, m *[child.MessageBytes]byte) child.Reply {
	q := decodeRequest(m)
	r := child.Reply{Seq: q.Seq}
	fail := func(code uint32, err error) child.Reply {
		r.Code, r.Text = code, err.Error()
		return r
	}
	switch q.Kind {
	case child.KindHello:
		shared, _ := strconv.ParseUint(os.Getenv(childShared), 10, 16)
		r.Text, r.A, r.B, r.Nanos = "Go test child", 1<<30, 2<<32|shared<<16|90, kernels.Version(plan.Kernels())
	case child.KindMap:
		var n [4]byte
		io.ReadFull(f, n[:])
		path := make([]byte, binary.LittleEndian.Uint32(n[:]))
		io.ReadFull(f, path)
		file, err := os.OpenFile(string(path), os.O_RDWR, 0)
		if err != nil {
			return fail(child.CodeNoMemory, err)
		}
		b, err := unix.Mmap(int(file.Fd()), 0, int(q.InBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		file.Close()
		if err != nil {
			return fail(child.CodeNoMemory, err)
		}
		c.mu.Lock()
		c.maps[q.Batch] = b
		c.mu.Unlock()
	case child.KindUnmap:
		c.mu.Lock()
		b := c.maps[q.Batch]
		delete(c.maps, q.Batch)
		c.mu.Unlock()
		unix.Munmap(b)
	case child.KindExecute:
		c.mu.Lock()
		b := c.maps[q.Batch]
		c.mu.Unlock()
		began := time.Now()
		fault := c.fault()
		if fault == "refuse" {
			return fail(child.CodeNoMemory, errors.New("out of memory"))
		}
		if err := execute(b, &q, fault, c.models); err != nil {
			return fail(700, err)
		}
		r.Nanos = uint64(time.Since(began))
		if fault == "seq" {
			r.Seq++
		}
	case child.KindModels:
		c.models = make([]byte, q.InBytes)
	default:
		return fail(700, fmt.Errorf("request of kind %d", q.Kind))
	}
	return r
}

// fault returns the fault at this execute request, if any. Some faults end the process here.
func (c *goChild) fault() string {
	name, at, ok := strings.Cut(os.Getenv(childFault), "@")
	if n := c.executes.Add(1); ok {
		if k, _ := strconv.Atoi(at); n < int64(k) {
			return ""
		}
		f, err := os.OpenFile(os.Getenv(childOnce), os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return ""
		}
		f.Close()
	}
	switch name {
	case "die":
		fmt.Fprintln(os.Stderr, "a test made it die")
		unix.Kill(os.Getpid(), unix.SIGKILL)
	case "silent":
		time.Sleep(time.Hour)
	case "slow":
		time.Sleep(slowFor)
	case "garbage":
		os.NewFile(3, "lane").Write(make([]byte, 77))
		os.NewFile(4, "lane").Write(make([]byte, 300))
	}
	return name
}

// execute executes a plan as a device does, and checks it.
func execute(b []byte, q *child.Request, fault string, models []byte) error {
	if q.InOff != 0 || q.InBytes > q.OutOff || q.OutOff+q.OutBytes > uint64(len(b)) || q.StatusOff+4*q.Tasks != q.OutOff+q.OutBytes {
		return fmt.Errorf("blocks do not fit: %+v in %d bytes", q, len(b))
	}
	if (q.TasksOff|q.TilesOff|q.LaunchesOff|q.OutOff|q.StatusOff)%plan.Alignment != 0 {
		return fmt.Errorf("not aligned: %+v", q)
	}
	if q.InFrom > q.InTo || q.InTo > q.TasksOff || q.OutFrom < q.OutOff || q.OutFrom > q.OutTo || q.OutTo > q.StatusOff {
		return fmt.Errorf("what to copy does not fit: %+v", q)
	}
	in, outBlock := make([]byte, max(q.InBytes, q.Room)), make([]byte, q.OutBytes)
	words := detectors.Words(plan.View[uint32](in, 0, len(in)/4))
	for i := range words {
		words[i] = 0x7fbadbad
	}
	copy(in[q.InFrom:], b[q.InFrom:q.InTo])
	copy(in[q.TasksOff:], b[q.TasksOff:q.InBytes])
	tasks := plan.View[plan.Task](in, int(q.TasksOff), int(q.Tasks))
	launches := plan.View[plan.Launch](in, int(q.LaunchesOff), int(q.Launches))
	used := int(q.StatusOff - q.OutOff)
	out, status := detectors.Words(plan.View[uint32](outBlock, 0, used/4)), plan.View[uint32](outBlock, used, int(q.Tasks))
	if q.CopyOut {
		copy(outBlock[q.OutFrom-q.OutOff:], b[q.OutFrom:q.OutTo])
	} else {
		for i := range out {
			out[i] = 0x7fbadbad // and it should be seen
		}
	}
	more, _ := strconv.Atoi(os.Getenv(childMore))
	zeroes := plan.View[plan.Zeroed](b, int(q.ZeroesOff), int(q.Zeroes))
	for _, z := range zeroes {
		if z.Count == 0 || (uint64(z.Scratch)+uint64(z.Count))*plan.Alignment > q.ScratchBytes {
			return fmt.Errorf("zeroed scratch %+v of %d bytes", z, q.ScratchBytes)
		}
	}
	for _, u := range plan.View[plan.Upload](in, int(q.UploadsOff), int(q.Uploads)) {
		copy(models[u.To:u.To+u.Bytes], in[u.From:u.From+u.Bytes])
	}
	const notRun, declined = 0, 1
	state := make([]int, len(tasks)) // 0, or 1 + the status
	at := uint32(0)
	for i, l := range launches {
		again := i > 0 && l.FirstTile == launches[i-1].FirstTile && l.Tiles == launches[i-1].Tiles // a later phase of the same tasks
		if l.FirstTile != at && !again || l.Tiles == 0 || l.Grid == 0 || l.Block == 0 || l.Block > 1024 || int(l.Kernel) >= len(plan.Kernels()) {
			return fmt.Errorf("launch %d is %+v, tile %d is due", i, l, at)
		}
		if again {
			continue
		}
		at += l.Tiles
		if plan.Kernels()[l.Kernel] == "normalise" {
			normalise(words.F32(), plan.View[plan.Tile](in, int(q.TilesOff)+16*int(l.FirstTile), 2*int(l.Grid)))
			continue
		}
		tiles := plan.View[plan.Tile](in, int(q.TilesOff)+16*int(l.FirstTile), int(l.Tiles))
		if plan.Kernels()[l.Kernel] == "knn_reference" {
			var err error
			if tiles, err = referenceTiles(tasks, tiles, l); err != nil {
				return fmt.Errorf("launch %d: %w", i, err)
			}
		}
		if plan.Kernels()[l.Kernel] == "discords_describe" { // a tile is a length of a task, and its Count says where the extremes are
			tiles = slices.Clone(tiles)
			for k := range tiles {
				tiles[k].Count = 1
			}
		}
		for k, tile := range tiles {
			if strings.HasPrefix(plan.Kernels()[l.Kernel], "svdsst") && k < plan.SVDSSTHeads {
				if k == 0 && (tile.First != l.Tiles-plan.SVDSSTHeads || uint64(tile.Count)*plan.Alignment >= q.ScratchBytes) {
					return fmt.Errorf("launch %d, head %d is %+v", i, k, tile)
				}
				continue
			}
			if tile.Count == 0 || uint64(tile.First)+uint64(tile.Count) > q.Tasks {
				return fmt.Errorf("launch %d, tile %d is %+v of %d tasks", i, k, tile, q.Tasks)
			}
			if tasks[tile.First].Op != sst.OpIKA { // the part of IKA-SST's tiles gives the chains of a block
				if uint64(tile.Scratch)*plan.Alignment > q.ScratchBytes {
					return fmt.Errorf("launch %d, tile %d: scratch at %d of %d bytes", i, k, tile.Scratch*plan.Alignment, q.ScratchBytes)
				}
				if tile.Part&0xffff > 0 { // KNN has the number of parts in the upper half
					continue
				}
			}
			for n := tile.First; n < tile.First+tile.Count; n++ {
				if state[n] != notRun {
					return fmt.Errorf("task %d is in a second tile", n)
				}
				state[n] = 1
				t := &tasks[n]
				if more > 1 && t.Op == sst.OpIKA {
					if status[n] = moreRounds(t, &l, out, more, int(q.Rounds)); status[n] == plan.StatusMore {
						continue
					}
					t.After, t.Carry = 0, detectors.Span{} // of a first task: it has none
				}
				if status[n] = decline(t, words, fault); status[n] == 0 && t.After == 1 && n > tile.First && tasks[n-1].Next == t.Carry {
					status[n] = status[n-1] // of one chain
				}
				if status[n] == declined {
					continue
				}
				r := detectors.Rows{
					Dim: int(t.Dim), Fresh: int(t.Fresh), Params: wordsAt(words, t.Params),
					Scores: wordsAt(out, t.Scores).F32(), Next: wordsAt(out, t.Next), Detail: wordsAt(out, t.Detail),
					Bins: wordsAt(words, t.Bins).F32(),
				}
				switch wide := (detectors.Span{Off: 2 * t.X.Off, Len: 2 * t.X.Len}); t.Op.Elem() {
				case detectors.F64:
					r.X64 = wordsAt(words, wide).F64()
				case detectors.I64:
					r.XI = wordsAt(words, wide).I64()
				default:
					r.X = wordsAt(words, t.X).F32()
				}
				if t.After == 1 {
					r.Carry = wordsAt(out, t.Carry)
				} else {
					r.Carry = wordsAt(words, t.Carry)
				}
				if t.Model.Len > 0 {
					r.Model = wordsAt(plan.View[uint32](models, 0, len(models)/4), t.Model)
					if want := testModel(int(math.Float32bits(r.X[0]) % testModels)); t.Op == knn.Op {
						r.Model = referencePoints(r.Model)
					} else if !slices.Equal(r.Model, want) {
						return fmt.Errorf("task %d has a model of %d words that begins with %d, want %d, %d", n, len(r.Model), r.Model[0], len(want), want[0])
					}
				}
				t.Op.Spec().CPU(context.Background(), &r, detectors.Sequential)
				if t.Op == scan.Op && tiles[k+1].Part>>8&0xff > 1 {
					ofPortion(&r, tiles[k+1].Part&0xff)
				}
			}
		}
	}
	for n, s := range state {
		if s == notRun {
			return fmt.Errorf("task %d of %d is in no tile", n, len(tasks))
		}
	}
	if fault == "status" {
		status[len(status)-1] = 7
	}
	copy(b[q.OutFrom:q.OutTo], outBlock[q.OutFrom-q.OutOff:])
	copy(b[q.StatusOff:], outBlock[q.StatusOff-q.OutOff:])
	if fault == "error" {
		return errors.New("an illegal memory access was encountered")
	}
	return nil
}

// ofPortion reduces the result of a grid to a device's portion of it. The first device has done all work, and the
// others none: no null map of theirs reaches a ratio, or no rectangle of theirs is anomalous.
func ofPortion(r *detectors.Rows, portion uint32) {
	const words, p = 14, 12
	replicates := scan.NullMaps(r.Params)
	for w := range slices.Chunk(r.Detail, words) {
		switch {
		case w[0] == detectors.NoRow:
		case replicates == 0 && portion > 0:
			clear(w)
			w[0] = detectors.NoRow
		case replicates > 0 && portion > 0:
			w.SetInt64(p, 0)
		case replicates > 0:
			w.SetInt64(p, int64(math.Round(w.Float64(p)*float64(replicates+1)))-1)
		}
	}
	if replicates == 0 && portion > 0 && r.Scores[r.Fresh-1] > 0 {
		r.Scores[r.Fresh-1] = 0
	}
}

// normalise acts as the kernel of that name, whose blocks have two tiles each.
func normalise(f32 []float32, tiles []plan.Tile) {
	for pair := range slices.Chunk(tiles, 2) {
		from, dim, width := pair[0], int(pair[0].Part), int(pair[0].Part*pair[0].Scratch)
		for i := range int(from.Count) {
			point := f32[int(pair[1].First)+i*width:][:width]
			copy(point, f32[int(from.First)+i*dim:])
			vec.Normalise(point, dim)
		}
	}
}

// referenceTiles returns a tile for each task of a launch of knn_reference. It returns an error if a block's runs are not
// of one model or do not fill the block in order, or the runs of a task are not all of its fresh rows.
func referenceTiles(tasks []plan.Task, tiles []plan.Tile, l plan.Launch) (perTask []plan.Tile, err error) {
	next, seen := l.Grid, map[uint32]uint32{}
	for _, block := range tiles[:l.Grid] {
		if block.First != next || block.Count == 0 || uint64(next)+uint64(block.Count) > uint64(len(tiles)) {
			return nil, fmt.Errorf("block %+v of %d tiles, run %d is due", block, len(tiles), next)
		}
		used, model := uint32(0), tasks[tiles[next].First].Model
		for _, run := range tiles[next : next+block.Count] {
			t := &tasks[run.First]
			if run.Scratch != used || run.Count == 0 || t.Model != model || run.Part != seen[run.First] {
				return nil, fmt.Errorf("run %+v, place %d and point %d are due", run, used, seen[run.First])
			}
			if run.Part == 0 {
				perTask = append(perTask, plan.Tile{First: run.First, Count: 1})
			}
			used += run.Count
			seen[run.First] += run.Count
		}
		if used > l.Block/2 { // 16 of a warp
			return nil, fmt.Errorf("%d points of a block of %d threads", used, l.Block)
		}
		next += block.Count
	}
	for i, n := range seen {
		if n != tasks[i].Fresh {
			return nil, fmt.Errorf("%d of %d fresh rows of task %d", n, tasks[i].Fresh, i)
		}
	}
	if int(next) != len(tiles) {
		return nil, fmt.Errorf("%d tiles, of which %d are used", len(tiles), next)
	}
	return perTask, nil
}

// referencePoints returns a model of op knn whose points are rows, where the points of m are normalised: the rows of
// tasks that have it are points, too.
func referencePoints(m detectors.Words) detectors.Words {
	const head = 6
	if m[3] == 0 {
		return m
	}
	width, n := int(m[0]*m[1]), int(m[2])
	w := make(detectors.Words, head+2*width, head+2*width+n*width)
	w.SetInt(0, width)
	w.SetInt(1, 1)
	w.SetInt(2, n)
	return append(w, m[head+2*m[0]:]...)
}

// testModels is the number of the tests' models; the first value of a task chooses its model.
const testModels = 5

// testModel returns the content of one.
func testModel(n int) detectors.Words {
	w := make(detectors.Words, 300+100*n)
	for i := range w {
		w[i] = uint32(1000*n + i)
	}
	return w
}

// moreRounds acts as a kernel whose tasks take more rounds: the first word of Next counts them. It
// repeats a launch that the child repeats.
func moreRounds(t *plan.Task, l *plan.Launch, out detectors.Words, more, most int) uint32 {
	if l.Tasks == 0 {
		most = 1
	}
	had := uint32(0)
	if t.After == 1 && t.Carry == t.Next {
		had = out[t.Next.Off]
	}
	for range most {
		if had++; had == uint32(more) {
			return plan.StatusDone
		}
		out[t.Next.Off] = had
	}
	return plan.StatusMore
}

// decline returns the status of a task, which may be declined for its values.
func decline(t *plan.Task, in detectors.Words, fault string) uint32 {
	if fault != "flag" {
		return 0
	}
	h := t.Fresh + t.Dim
	for _, v := range wordsAt(in, t.X).F32() {
		h = h*16777619 ^ math.Float32bits(v)
	}
	if h>>7%3 == 0 {
		return 1
	}
	return 0
}

func wordsAt(a detectors.Words, s detectors.Span) detectors.Words {
	return a[s.Off : s.Off+s.Len : s.Off+s.Len]
}
