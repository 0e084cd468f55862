package cuda

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"odradek/cuda/plan"
)

// Parent and child talk over a unix stream socket a lane, in little endian: a
// request of messageBytes from the parent, a reply of the same size from the child,
// one at a time. Positions are bytes in the batch's memory; it itself never
// passes the socket.

const (
	messageBytes = 192
	magic        = 0x6f647261
)

type requestKind uint32

const (
	kindHello   requestKind = 1 // first on lane 0, answered when the device is ready
	kindMap     requestKind = 2 // a path of the memory follows: uint32 length, bytes
	kindExecute requestKind = 3
	kindUnmap   requestKind = 4
	// kindMeasure executes, then repeats the launches on copies of the buffers, cold.
	kindMeasure requestKind = 5
	// kindWindowCache takes InBytes of the device's memory for windows, for as long as the
	// child lives; the reply's a is their address on the device.
	kindWindowCache requestKind = 6
	// kindFault is for tests: launches says which fault is to happen. A child
	// does it only if it was started with -faults.
	kindFault requestKind = 9
)

// The faults of kindFault.
const (
	faultAddress = 1 // a kernel writes where it may not
	faultEndless = 2 // a kernel that does not end
)

// request is what the parent says.
type request struct {
	kind           requestKind
	seq            uint32 // comes back in the reply
	repeat, rotate uint32 // kindMeasure: launches, copies of the buffers
	plan.Request
}

func (r *request) encode(m *[messageBytes]byte) {
	clear(m[:])
	le := binary.LittleEndian
	for i, v := range []uint32{magic, uint32(r.kind), r.Batch, r.Launches} {
		le.PutUint32(m[4*i:], v)
	}
	for i, v := range []uint64{r.InOff, r.InBytes, r.TasksOff, r.TilesOff, r.LaunchesOff, r.OutOff, r.OutBytes, r.StatusOff,
		r.Tasks, r.ScratchBytes} {
		le.PutUint64(m[16+8*i:], v)
	}
	if r.CopyOut {
		m[96] = 1
	}
	le.PutUint32(m[100:], r.seq)
	le.PutUint32(m[104:], r.repeat)
	le.PutUint32(m[108:], r.rotate)
	for i, v := range []uint64{r.InFrom, r.InTo, r.OutFrom, r.OutTo, r.Room} {
		le.PutUint64(m[112+8*i:], v)
	}
}

// The codes of replies: a CUresult, or one of our own.
const (
	codeOK       = 0
	codeNoMemory = 2     // of the device, for this batch; the child is well
	codeNonsense = 10001 // the request; the child is well
)

// broken reports whether the child is not to be used any more: after any other
// error of a device its process has lost it.
func (r *reply) broken() bool {
	return r.code != codeOK && r.code != codeNoMemory && r.code != codeNonsense
}

// reply is what the child says.
type reply struct {
	seq, code uint32
	// hello: kernels.Version of the child; execute: time from the copy in to the
	// copy out; measure: the median time of the launches
	nanos uint64
	a     uint64 // hello: memory; execute: time of the launches; measure: the fastest; windowCache: the address
	b     uint64 // hello: SMs << 32, KiB of shared memory << 16, capability; measure: copies of the buffers
	text  string // hello: the device's name; else what is wrong
}

func decodeReply(m *[messageBytes]byte) (r reply, err error) {
	le := binary.LittleEndian
	if got := le.Uint32(m[0:]); got != magic {
		return r, fmt.Errorf("reply begins with %#x", got)
	}
	r.seq, r.code = le.Uint32(m[4:]), le.Uint32(m[8:])
	r.nanos, r.a, r.b = le.Uint64(m[16:]), le.Uint64(m[24:]), le.Uint64(m[32:])
	text := m[40:]
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	r.text = string(bytes.ToValidUTF8(text, []byte("?")))
	return r, nil
}

func (r *reply) info() Info {
	return Info{
		Name: r.text, Memory: int64(r.a), SMs: int(r.b >> 32), Shared: int(r.b>>16&0xffff) << 10, Capability: int(r.b & 0xffff),
	}
}
