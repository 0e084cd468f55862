// Package child is the parent's side of a device: the child process odradek-cuda (Process), its supervision (Device),
// and the messages between parent and child (Request, Reply). Messages carry no data: batches lie in memory that both
// sides map.
package child

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"odradek/cuda/plan"
)

// Parent and child exchange messages over a unix stream socket for each lane, in little endian: a
// request of MessageBytes from the parent, then a reply of the same size from the child, one at a time.
// Positions are bytes in the batch's memory, whose content never passes the socket.

// MessageBytes is the size of a request and of a reply. Magic begins both.
const (
	MessageBytes = 192
	Magic        = 0x6f647261
)

// Kind is the kind of a request.
type Kind uint32

// The kinds of requests.
const (
	KindHello   Kind = 1 // the first, on lane 0; answered once the device is ready
	KindMap     Kind = 2 // a path of the memory follows: uint32 length, bytes
	KindExecute Kind = 3
	KindUnmap   Kind = 4
	// KindMeasure executes, then repeats the launches on copies of the buffers, cold.
	KindMeasure Kind = 5
	// KindModels takes InBytes of the device's memory for models, until the child ends.
	KindModels Kind = 6
	// KindFault breaks the device, for tests; Launches has the fault. A child accepts it only with the
	// flag -faults.
	KindFault Kind = 9
)

// The faults of KindFault.
const (
	FaultAddress = 1 // a kernel writes to an invalid address
	FaultEndless = 2 // a kernel does not end
)

// Request is a message of the parent.
type Request struct {
	Kind           Kind
	Seq            uint32 // comes back in the reply
	Repeat, Rotate uint32 // KindMeasure: launches, copies of the buffers
	Path           string // KindMap: of the memory; it follows the message
	plan.Request
}

func (r *Request) encode(m *[MessageBytes]byte) {
	clear(m[:])
	le := binary.LittleEndian
	for i, v := range []uint32{Magic, uint32(r.Kind), r.Batch, r.Launches} {
		le.PutUint32(m[4*i:], v)
	}
	for i, v := range []uint64{r.InOff, r.InBytes, r.TasksOff, r.TilesOff, r.LaunchesOff, r.OutOff, r.OutBytes, r.StatusOff,
		r.Tasks, r.ScratchBytes} {
		le.PutUint64(m[16+8*i:], v)
	}
	if r.CopyOut {
		m[96] = 1
	}
	le.PutUint32(m[100:], r.Seq)
	le.PutUint32(m[104:], r.Repeat)
	le.PutUint32(m[108:], r.Rotate)
	for i, v := range []uint64{r.InFrom, r.InTo, r.OutFrom, r.OutTo, r.Room} {
		le.PutUint64(m[112+8*i:], v)
	}
	le.PutUint32(m[152:], r.Rounds)
	le.PutUint32(m[156:], r.Zeroes)
	le.PutUint64(m[160:], r.ZeroesOff)
	le.PutUint64(m[168:], r.RoundLimit)
	le.PutUint64(m[176:], r.UploadsOff)
	le.PutUint32(m[184:], r.Models)
	le.PutUint32(m[188:], r.Uploads)
}

// The codes of replies: a CUresult, or one of this protocol.
const (
	CodeOK       = 0
	CodeNoMemory = 2     // the device has too little memory for this batch; the child remains usable
	CodeNonsense = 10001 // an invalid request; the child remains usable
)

// Reply is a message of the child.
type Reply struct {
	Seq  uint32
	Code uint32
	// hello: kernels.Version of the child; execute: time from the copy in to the
	// copy out; measure: the median time of the launches
	Nanos uint64
	A     uint64 // hello: memory; measure: the fastest
	B     uint64 // hello: SMs << 32, KiB of shared memory << 16, capability; measure: copies of the buffers
	Text  string // hello: the device's name; else the error
}

func decodeReply(m *[MessageBytes]byte) (r Reply, err error) {
	le := binary.LittleEndian
	if got := le.Uint32(m[0:]); got != Magic {
		return r, fmt.Errorf("reply begins with %#x", got)
	}
	r.Seq, r.Code = le.Uint32(m[4:]), le.Uint32(m[8:])
	r.Nanos, r.A, r.B = le.Uint64(m[16:]), le.Uint64(m[24:]), le.Uint64(m[32:])
	text := m[40:]
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	r.Text = string(bytes.ToValidUTF8(text, []byte("?")))
	return r, nil
}

func (r *Reply) info() Info {
	return Info{
		Name: r.Text, Memory: int64(r.A), SMs: int(r.B >> 32), Shared: int(r.B>>16&0xffff) << 10, Capability: int(r.B & 0xffff),
	}
}
