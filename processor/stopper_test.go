package processor

import (
	"errors"
	"strings"
	"testing"

	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
)

var tp = kafka.TP{Topic: "in", Partition: 3}

// feed passes records to s from an offset on: d is a dead letter, a dot none. It returns the offset of the record that is
// refused, or the one behind all.
func feed(s *deadLetterStop, offset int64, records string) int64 {
	for _, r := range records {
		if r != 'd' {
			s.Pass()
		} else if !s.Admit(offset, 1) {
			return offset
		}
		offset++
	}
	return offset
}

// TestStopper: two of five records may be dead letters, in each window of five.
func TestStopper(t *testing.T) {
	for records, want := range map[string]int64{
		"dd...dd...": 10, "ddd": 2, "...dddd": 7, "d.d.d": 4, ".....ddd": 7, "dd..": 4,
	} {
		s := newDeadLetterStop(tp, cycle.DeadLetterLimit{Most: 2, Of: 5}, nil)
		at := feed(&s, 0, records)
		if at != want {
			t.Errorf("%s: stopped at %d, want %d", records, at, want)
		}
		var q *QuarantineError
		if refused := at < int64(len(records)); refused != errors.As(s.Full(), &q) {
			t.Errorf("%s: the fault is %v", records, s.Full())
		} else if refused && (q.Reason != DeadLetters || !strings.Contains(q.Error(), "2 of 5 records (stop_above)") ||
			!s.Refuses(at)) {
			t.Errorf("%s: the fault is %v, for %s", records, q, q.Reason)
		}
	}
	var off deadLetterStop
	if feed(&off, 0, "dddd") != 4 || off.On() || off.Refuses(4) {
		t.Error("without a limit a record is refused")
	}
}

// TestStopperResume: an operator's resume begins a window with its record, or allows all up to an offset.
func TestStopperResume(t *testing.T) {
	allowed := feedback.Resume{Offset: 1}
	s := newDeadLetterStop(tp, cycle.DeadLetterLimit{Most: 2, Of: 5}, func(partition kafka.TP) (feedback.Resume, bool) {
		return allowed, partition == tp
	})
	if at := feed(&s, 0, "ddddd"); at != 2 {
		t.Fatalf("stopped at %d, want 2", at)
	}
	allowed.Offset = 2
	if s.Retry(); s.Full() != nil || s.Refuses(2) {
		t.Error("refused after a resume")
	}
	if at := feed(&s, 2, "ddd"); at != 4 || s.Window() != (cycle.LetterWindow{Dead: 2, Records: 2}) {
		t.Fatalf("stopped at %d with %+v, want 4 with two of two", at, s.Window())
	}
	allowed = feedback.Resume{Offset: 4, Until: 8}
	if at := feed(&s, 4, "dddddd"); at != 8 {
		t.Errorf("stopped at %d, want 8", at)
	}
}

// TestStopperRollback: a rollback returns to the counts of its offset, and a restart to the commit's.
func TestStopperRollback(t *testing.T) {
	s := newDeadLetterStop(tp, cycle.DeadLetterLimit{Most: 3, Of: 10}, nil)
	s.Start(100, cycle.LetterWindow{Dead: 1, Records: 4}.AppendTo("floor"))
	feed(&s, 100, ".d")
	s.Join(102, 100)
	feed(&s, 102, "d")
	s.Late()
	s.Join(103, 102)
	if want := (cycle.LetterWindow{Dead: 4, Records: 7}); s.Window() != want || s.Admit(103, 1) {
		t.Errorf("%+v, want %+v and full", s.Window(), want)
	}
	s.Rollback(102)
	if want := (cycle.LetterWindow{Dead: 2, Records: 6}); s.Window() != want || s.Full() != nil {
		t.Errorf("rolled back to %+v, want %+v; %v", s.Window(), want, s.Full())
	}
	s.Rollback(102)
	s.Start(102, "floor")
	if s.Window() != (cycle.LetterWindow{}) {
		t.Errorf("begins with %+v", s.Window())
	}
}
