//go:build cuda

package main

/*
#include "lane.h"
#include <stdlib.h>
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"unsafe"

	"gorgonia.org/cu"

	"odradek/cuda/kernels"
	"odradek/cuda/plan"
)

// serve answers one lane's requests on a thread of its own: batches in C
// (laneServe), the others here. It returns when the other end is closed.
func (d *device) serve(fd int) error {
	if err := d.ctx.Lock(); err != nil { // also locks the thread
		return err
	}
	lane, err := newLane()
	if err != nil {
		return fmt.Errorf("lane %d: %w", fd-3, err)
	}
	// Blocking reads: a file of package os would go through the poller.
	socket := os.NewFile(uintptr(fd), "lane")
	if socket == nil {
		return fmt.Errorf("no file %d for a lane", fd)
	}
	var q C.Request
	for C.laneServe(lane, C.int(fd), &q) == 1 {
		var r C.Reply
		switch q.kind {
		case C.kindHello:
			r.nanos = C.uint64_t(kernels.Version(plan.Kernels()))
			r.a = C.uint64_t(d.memory)
			r.b = C.uint64_t(d.sms)<<32 | C.uint64_t(d.shared>>10)<<16 | C.uint64_t(d.capability)
			say(&r, 0, d.name)
		case C.kindMap:
			path, err := readPath(socket)
			if err != nil {
				return fmt.Errorf("lane %d: %w", fd-3, err)
			}
			p := C.CString(path)
			C.mapBatch(&q, p, &r)
			C.free(unsafe.Pointer(p))
		case C.kindUnmap:
			C.unmapBatch(&q, &r)
		case C.kindModels:
			C.modelMemory(&q, &r)
		case C.kindFault:
			d.fault(lane, uint32(q.launches), &r)
		default:
			say(&r, C.badRequest, fmt.Sprintf("no request of kind %d", q.kind))
		}
		if C.laneReply(C.int(fd), &q, &r) == 0 {
			break
		}
	}
	return nil
}

// newLane makes the lane's stream and events. Its memory is C's.
func newLane() (*C.Lane, error) {
	stream, err := cu.MakeStream(cu.NonBlocking)
	if err != nil {
		return nil, err
	}
	lane := (*C.Lane)(C.calloc(1, C.sizeof_Lane))
	lane.stream = *(*C.CUstream)(unsafe.Pointer(&stream))
	for _, to := range []*C.CUevent{&lane.begin, &lane.end} {
		event, err := cu.MakeEvent(cu.DefaultEvent)
		if err != nil {
			return nil, err
		}
		*to = *(*C.CUevent)(unsafe.Pointer(&event))
	}
	return lane, nil
}

// readPath reads the path that follows a map request, after its length.
func readPath(r io.Reader) (string, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return "", err
	}
	length := binary.LittleEndian.Uint32(n[:])
	if length == 0 || length > 4096 {
		return "", fmt.Errorf("a path of %d bytes", length)
	}
	path := make([]byte, length)
	_, err := io.ReadFull(r, path)
	return string(path), err
}

// fault breaks the device for a test: 1 by an illegal address, 2 by an endless kernel.
func (d *device) fault(lane *C.Lane, which uint32, r *C.Reply) {
	f, ok := d.faults[which]
	if !ok {
		say(r, C.badRequest, "faults need the flag -faults and a number from 1 to 2")
		return
	}
	if e := C.launchFault(lane, raw(f)); e != 0 {
		say(r, C.uint32_t(e), fmt.Sprintf("%s (%d) in the fault asked for", errorName(e), e))
	}
}

// say sets a reply's code and text, cut to fit.
func say(r *C.Reply, code C.uint32_t, text string) {
	r.code = code
	text = strings.ToValidUTF8(text[:min(len(text), len(r.text)-1)], "")
	for i := range len(text) {
		r.text[i] = C.char(text[i])
	}
}
