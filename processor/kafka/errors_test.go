package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"odradek/processor/kafka/internal/brokertest"

	kafkago "github.com/segmentio/kafka-go"
)

// TestClassOfCode lists every code of the protocol by number, so that a slip in
// the names shows.
func TestClassOfCode(t *testing.T) {
	want := map[int]Class{0: None, 12: Abortable, 28: Abortable, 32: Abortable, 44: Abortable, 45: Abortable,
		49: Abortable, 52: Abortable, 55: Abortable, 59: Abortable, 87: Abortable, 105: Abortable, 120: Abortable, 1: Abortable,
		10: TooLarge, 18: TooLarge}
	set := func(c Class, codes ...int) {
		for _, code := range codes {
			if old, ok := want[code]; ok {
				t.Fatalf("%d is %v and %v", code, old, c)
			}
			want[code] = c
		}
	}
	set(Retriable, 2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 60, 70, 71, 72, 74, 75, 78, 80, 83, 88, 89, 100, 103, 106)
	set(Rebalance, 22, 25, 27, 79, 110, 113)
	set(Fenced, 47, 48, 90)
	set(InstanceFenced, 82, 111)
	set(Fatal, 17, 21, 23, 24, 26, 29, 30, 31, 33, 34, 35, 42, 43, 50, 53, 54, 58, 76, 81, 112)
	for code := -1; code < 140; code++ {
		w, ok := want[code]
		if !ok {
			w = Unknown
		}
		err := error(kafkago.Error(code))
		if code == 0 {
			err = nil
		}
		if got := ClassOf(err); got != w {
			t.Errorf("code %d: %v, want %v", code, got, w)
		}
		if err == nil {
			continue
		}
		for _, wrapped := range []error{
			fmt.Errorf("kafka: something: %w", err),
			&ProduceError{TP: brokertest.TP("t", 1), Code: kafkago.Error(code)},
			&OffsetError{TP: brokertest.TP("t", 1), Code: kafkago.Error(code)},
			&BrokerError{Err: err},
		} {
			if got := ClassOf(wrapped); got != w {
				t.Errorf("code %d in %T: %v, want %v", code, wrapped, got, w)
			}
		}
	}
}

func TestClassOfOthers(t *testing.T) {
	refused := fmt.Errorf("kafka: dial x: %w", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	f := func(err error, want Class) {
		t.Helper()
		if got := ClassOf(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	f(context.Canceled, Unknown)
	f(context.DeadlineExceeded, Unknown)
	f(io.ErrUnexpectedEOF, Unknown)
	f(&BrokerError{Err: io.EOF}, Unknown)
	f(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, Unknown)
	f(errors.New("anything"), Unknown)
	f(refused, Retriable)
	// The name of a container that is stopped, and a host that does not answer: nothing was sent.
	f(dialError("x", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}}), Retriable)
	f(dialError("x", &net.OpError{Op: "dial", Err: context.DeadlineExceeded}), Retriable)
	f(tlsError("x", context.DeadlineExceeded), Retriable)
	f(&BrokerError{Err: refused}, Retriable)
	f(ErrClosed, Fatal)
	f(&classed{Unknown, kafkago.NotLeaderForPartition}, Unknown)
	f(fmt.Errorf("more: %w", &classed{Unknown, kafkago.NotLeaderForPartition}), Unknown)
	if s := Class(99).String(); s != "class(99)" {
		t.Error(s)
	}
}

// TestRealNetworkErrors makes the errors that a broker which goes away makes.
func TestRealNetworkErrors(t *testing.T) {
	fake := brokertest.Cluster(t)
	c := open(t, fake.ListenAddrs())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	node, err := c.coordinators.find(ctx, groupCoordinator, "g")
	if err != nil {
		t.Fatal(err)
	}
	fake.Close()
	c.Cluster.roundTrip(ctx, node, emptyMetadata()) // may find the old connection broken
	if _, err := c.Cluster.roundTrip(ctx, node, emptyMetadata()); ClassOf(err) != Retriable {
		t.Errorf("broker down: %v is %v", err, ClassOf(err))
	}
	c.Close()
	if _, err := c.Cluster.roundTrip(ctx, node, emptyMetadata()); ClassOf(err) != Fatal {
		t.Errorf("client closed: %v is %v", err, ClassOf(err))
	}
}

func TestGravest(t *testing.T) {
	if err := gravest(nil, nil); err != nil {
		t.Fatal(err)
	}
	tooLarge := &ProduceError{TP: brokertest.TP("t", 3), Code: kafkago.MessageSizeTooLarge}
	if err := gravest(nil, tooLarge); err != error(tooLarge) {
		t.Fatal(err)
	}
	broken := &BrokerError{Err: io.EOF}
	for _, err := range []error{gravest(tooLarge, broken), gravest(broken, tooLarge)} {
		if ClassOf(err) != Unknown {
			t.Errorf("%v is %v", err, ClassOf(err))
		}
		if !errors.Is(err, io.EOF) || !errors.Is(err, kafkago.MessageSizeTooLarge) {
			t.Errorf("%v lacks one", err)
		}
	}
	fenced := fmt.Errorf("x: %w", kafkago.ProducerFenced)
	if err := gravest(broken, fenced, tooLarge); ClassOf(err) != Fenced {
		t.Errorf("%v is %v", err, ClassOf(err))
	}
	if len(gravity) != len(classNames) {
		t.Error("a class has no place in the order")
	}
}

func TestErrorTexts(t *testing.T) {
	f := func(err error, wants ...string) {
		t.Helper()
		for _, w := range wants {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q lacks %q", err, w)
			}
		}
	}
	f(&ProduceError{TP: brokertest.TP("scores", 7), Code: kafkago.MessageSizeTooLarge, Batch: 2, Records: 100, Bytes: 2 << 20,
		Message: "too much"},
		"scores/7", "batch 2", "100 records", "2097152 bytes", "too much", "max.message.bytes")
	f(&ProduceError{TP: brokertest.TP("scores", 7), Code: kafkago.TopicAuthorizationFailed}, "WRITE", "scores")
	for _, code := range []kafkago.Error{kafkago.UnsupportedForMessageFormat, kafkago.UnsupportedCompressionType} {
		f(&ProduceError{TP: brokertest.TP("scores", 7), Code: code}, "set compression to none, or to gzip")
	}
	f(&OffsetError{Group: "g", TP: brokertest.TP("in", 7), Code: kafkago.OffsetMetadataTooLarge}, "in/7", `"g"`, "offset.metadata.max.bytes")
}
