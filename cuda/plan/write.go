package plan

import (
	"unsafe"

	"odradek/detectors"
)

// Memory is a batch's memory as a plan uses it: the input arena from the first byte, then the plan, up
// to byte Out; the output arena from there, then the status words.
type Memory struct {
	ID    uint32 // in the children
	Bytes []byte
	Out   int
}

// Request gives the ranges of a batch's memory that a device reads and writes. [InOff, InOff+InBytes)
// is the input: the used part of In, then tasks, tiles and launches. Of the arena, [InFrom, InTo) is
// copied to the device. [OutOff, OutOff+OutBytes) is the output: the used part of Out, of which
// [OutFrom, OutTo) is copied back, then a status word a task. Of a batch that is split over devices,
// these ranges are those of a part's tasks.
type Request struct {
	Batch                           uint32 // id of the memory
	Launches                        uint32 // their number
	InOff, InBytes                  uint64
	TasksOff, TilesOff, LaunchesOff uint64
	OutOff, OutBytes, StatusOff     uint64
	Tasks                           uint64 // their number
	Later                           int    // number of those in a later round; not sent to the child
	ScratchBytes                    uint64 // on the device
	CopyOut                         bool   // Out has to be copied to the device first
	InFrom, InTo, OutFrom, OutTo    uint64
	Room                            uint64 // bytes of the input on the device, if more than InBytes
	// Rounds is how often the child may run the repeatable launches while a task requests more; 0:
	// there are none. A round longer than RoundLimit, in nanoseconds, is a fault.
	Rounds     uint32
	Zeroes     uint32 // their number, at ZeroesOff after the launches
	ZeroesOff  uint64
	RoundLimit uint64
	// Models is the number of models that the tasks read, and Uploads the number of those not on the
	// device yet: Upload structs, at UploadsOff.
	UploadsOff      uint64
	Models, Uploads uint32
}

// Work estimates a device's time for the plan, in nanoseconds: its arithmetic plus copies of the given
// bytes, which overlap only among batches.
func (p *segments) Work(bytes int) int64 {
	return int64(p.cost) + chainWeight*int64(p.longest) + int64(bytes)/copyRate
}

// chainWeight is the approximate number of chains that a device computes at once: a single chain costs
// that factor more than its share of a full device. copyRate is the bytes a nanosecond to or from a
// device (PCIe of the fifth generation, measured).
const (
	chainWeight = 128
	copyRate    = 50
)

// taskBytes is the size of a Task in bytes.
const taskBytes = int(unsafe.Sizeof(Task{}))

// Write writes the plan of this round from byte at of the memory, with its status words at status, and
// returns where the next plan's begin. It writes nothing beyond m.Out: a larger end shows how much room
// is missing.
func (p *Planner) Write(b *detectors.Batch, m *Memory, at, status int) (end, statusEnd int) {
	n := p.Device()
	tiles := Align(at + taskBytes*n)
	if tiles > m.Out {
		return tiles + 32*n, status
	}
	p.points.base, p.points.tiles = m.Out/4, tiles/4
	p.placeModels()
	p.own = uint32((status - m.Out) / 4)
	p.lay(b, View[Task](m.Bytes, at, n))
	if p.Divided() {
		status = m.Out + Align(4*int(p.own))
	}
	behind := Align(tiles + 16*len(p.tiles)) // copied with the plan
	launches := behind
	if p.part {
		launches = Align(behind + 4*p.paramsLen())
	}
	zeroes := launches + 32*len(p.launches)
	uploads := Align(zeroes + 8*len(p.zeroes))
	list, content := p.uploadBytes()
	end = uploads + list + content
	if end > m.Out {
		return end, status
	}
	copy(View[Tile](m.Bytes, tiles, len(p.tiles)), p.tiles)
	copy(View[Launch](m.Bytes, launches, len(p.launches)), p.launches)
	copy(View[Zeroed](m.Bytes, zeroes, len(p.zeroes)), p.zeroes)
	p.q = Request{
		Batch: m.ID, Launches: uint32(len(p.launches)),
		InBytes: uint64(end), TasksOff: uint64(at), TilesOff: uint64(tiles), LaunchesOff: uint64(launches),
		OutOff: uint64(m.Out), OutBytes: uint64(status + 4*n - m.Out), StatusOff: uint64(status),
		Tasks: uint64(n), Later: p.later, ScratchBytes: p.scratchBytes,
		InTo: uint64(at), OutFrom: uint64(m.Out), OutTo: uint64(status),
		CopyOut: p.later > 0 || p.outputs != len(b.Out), // carries, gaps, and outputs of earlier rounds
		Rounds:  uint32(p.repeats), Zeroes: uint32(len(p.zeroes)), ZeroesOff: uint64(zeroes), Room: p.points.room(),
	}
	if p.part {
		p.narrow(b, m, behind)
	}
	p.writeUploads(m, uploads, &p.q)
	return end, Align(status + 4*n)
}

// View returns n elements at a byte offset.
func View[T any](b []byte, off, n int) []T {
	if n == 0 {
		return nil
	}
	var t T
	_ = b[off : off+n*int(unsafe.Sizeof(t))]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[off])), n)
}
