package output

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas/avro"
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
			early := f
			early.Alarm, early.Topic, early.Partition = nil, "", nil
			// A record of an earlier version has no alarm, not even null, or one of scores alone, or without ranges, without what is
			// held, without its topic; and no topic or partition.
			formats := []int{len(early.Append(nil, id)) - 3}
			if f.Alarm == nil {
				formats = append(formats, formats[0]+1)
			} else {
				topic := len(b) - 2 - len(appendOptional(nil, f.Alarm.Topic))
				ranges := topic - len(avro.AppendLong(avro.AppendLong(nil, f.Alarm.Early), f.Alarm.Held))
				courses := ranges - 16
				scores := courses - 16 - len(avro.AppendLong(avro.AppendLong(nil, f.Alarm.Samples), f.Alarm.Lasted))
				formats = append(formats, scores, courses, ranges, topic, len(b)-2)
			}
			for n := range b {
				if _, err := DecodeFeedback(b[:n]); err == nil && !slices.Contains(formats, n) {
					t.Errorf("%d of %d bytes are a record", n, len(b))
				}
			}
		}
	}
	f := Feedback{ID: "f", Kind: FeedbackFalseAlarm, Anomaly: "0123", Alarm: &Alarm{Detector: "d", Series: "a", Opened: 1, Peak: 2}}
	b := f.Append(nil, 7)
	for _, less := range []int{2, 3, 5, 21, 39} {
		if got, err := DecodeFeedback(b[:len(b)-less]); err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("of an earlier version, %d bytes less: %+v %v, want %+v", less, got, err, f)
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

// TestFeedbackOfEarlierSchema: a record in the single-object encoding that an earlier version has written, whose schema has another
// fingerprint, is read.
func TestFeedbackOfEarlierSchema(t *testing.T) {
	f := Feedback{ID: "m", Keys: "pump-*", Author: "a"}
	b := f.Append(nil, SingleObject)
	b = b[:len(b)-2] // topic and partition
	binary.LittleEndian.PutUint64(b[2:], 0xea812ed9bddaabe3)
	if got, err := DecodeFeedback(b); err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("%+v, %v; want %+v", got, err, f)
	}
	binary.LittleEndian.PutUint64(b[2:], 1)
	if _, err := DecodeFeedback(b); err == nil {
		t.Error("a record of another schema is read")
	}
}
