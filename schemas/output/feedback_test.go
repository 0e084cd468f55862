package output

import (
	"reflect"
	"testing"

	"github.com/linkedin/goavro/v2"
)

// TestFeedback compares with goavro, both ways and in both framings.
func TestFeedback(t *testing.T) {
	codec, err := goavro.NewCodec(FeedbackSchema)
	if err != nil {
		t.Fatal(err)
	}
	from, to := int64(1_700_000_000_000_000), int64(1_700_000_600_000_000)
	three := int32(3)
	for _, f := range []Feedback{
		{ID: "m", Kind: FeedbackMute, Detector: "d", Keys: "pump-*", To: &to, Direction: 2, Author: "a", Reason: "r", WrittenAt: 5},
		{ID: "t", Kind: FeedbackMute, Keys: "pump-*", Topic: "presses", Partition: &three},
		{ID: "w", Kind: FeedbackMaintenance, From: &from, To: &to, WrittenAt: -5},
		{ID: "c", Kind: FeedbackConfirm, Anomaly: "0123"},
		{ID: "f", Kind: FeedbackFalseAlarm, Anomaly: "0123",
			Alarm: &Alarm{Detector: "d", Series: "pump", Field: -1, Side: 2, Opened: -0.5, Peak: 1e9,
				Samples: 40, Lasted: 1 << 40, First: 0.25, Apart: 1e-3, Initial: 7, Range: 9.5, Early: 3, Held: 1 << 20, Topic: "in"}},
		{ID: "r", Kind: FeedbackResume, Resume: &Resume{Topic: "in", Partition: 3, Offset: 1 << 40, Until: 1<<40 + 7}},
	} {
		for _, id := range []int32{-1, 7} {
			b := f.Append(nil, id)
			head := 5
			if id < 0 {
				head = 10
			}
			native, rest, err := codec.NativeFromBinary(b[head:])
			if err != nil || len(rest) > 0 {
				t.Fatal(err, rest)
			}
			again, err := codec.BinaryFromNative(b[:head:head], native)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeFeedback(again)
			if err != nil || !reflect.DeepEqual(got, f) {
				t.Errorf("%+v %v, want %+v", got, err, f)
			}
			for n := range b {
				if _, err := DecodeFeedback(b[:n]); err == nil {
					t.Errorf("%d of %d bytes are a record", n, len(b))
				}
			}
		}
	}
	for name, f := range map[string]Feedback{"no id": {}, "backwards": {ID: "a", From: &to, To: &from},
		"open-ended": {ID: "a", Kind: FeedbackMaintenance, To: &to},
		"of nothing": {ID: "a", Kind: FeedbackFalseAlarm}, "nowhere": {ID: "a", Kind: FeedbackResume},
		"a partition of any topic": {ID: "a", Partition: &three},
		"a mute of a partition":    {ID: "a", Resume: &Resume{Topic: "in"}}} {
		if _, err := DecodeFeedback(f.Append(nil, -1)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// TestFeedbackOfAnotherSchema: a record in the single-object encoding whose schema has another fingerprint is refused.
func TestFeedbackOfAnotherSchema(t *testing.T) {
	f := Feedback{ID: "m", Keys: "pump-*", Author: "a"}
	b := f.Append(nil, SingleObject)
	b[2]++
	if _, err := DecodeFeedback(b); err == nil {
		t.Error("a record of another schema is read")
	}
}
