package output

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"odradek/schemas/avro"
)

// FeedbackSchema is the Avro schema of the feedback topic.
//
//go:embed feedback.avsc
var FeedbackSchema string

// The symbols of the schema's enums, in its order.
var (
	FeedbackKinds      = []string{"mute", "maintenance", "confirm", "false_alarm", "resume"}
	FeedbackDirections = []string{"both", "above", "below"}
)

// The kinds of feedback: indices of FeedbackKinds.
const (
	FeedbackMute uint8 = iota
	FeedbackMaintenance
	FeedbackConfirm
	FeedbackFalseAlarm
	FeedbackResume
)

// Resume says that a partition, paused before the record at Offset for its dead letters, goes on. The records before
// Until do not pause it again.
type Resume struct {
	Topic         string
	Partition     int32
	Offset, Until int64
}

// Feedback is one record of the feedback topic. Times are microseconds since 1970.
type Feedback struct {
	ID        string
	Kind      uint8
	Anomaly   string // "": none (null), as Detector and Keys
	Detector  string
	Keys      string
	From, To  *int64 // nil: null
	Direction uint8  // index of FeedbackDirections
	Author    string
	Reason    string
	WrittenAt int64
	Resume    *Resume // of FeedbackResume; nil: null
	Alarm     *Alarm  // of FeedbackConfirm and FeedbackFalseAlarm; nil: not known (null)
	Topic     string  // of a mute, the input topic of its series; "": any (null)
	Partition *int32  // of a mute, the partition of Topic; nil: any (null)
}

// Alarm is an anomaly as far as others are compared with it, as the schema describes it.
type Alarm struct {
	Detector, Series string
	Field            int32
	Side             uint8 // index of FeedbackDirections
	Opened, Peak     float64
	Samples, Lasted  int64 // 0 where they are not known, as what follows
	First, Apart     float64
	Initial, Range   float64
	Early, Held      int64
	Topic            string // "": any (null)
}

var compiledFeedback = compile(FeedbackSchema)

// Append appends the record with its framing; schemaID is as of NewScoreEncoder.
func (f *Feedback) Append(dst []byte, schemaID int32) []byte {
	start := len(dst)
	dst = append(dst, compiledFeedback.head(schemaID)...)
	dst = avro.AppendText(dst, f.ID)
	dst = avro.AppendLong(dst, int64(f.Kind))
	for _, text := range []string{f.Anomaly, f.Detector, f.Keys} {
		dst = appendOptional(dst, text)
	}
	for _, at := range []*int64{f.From, f.To} {
		if at == nil {
			dst = avro.AppendLong(dst, 0)
			continue
		}
		dst = avro.AppendLong(avro.AppendLong(dst, 1), *at)
	}
	dst = avro.AppendLong(dst, int64(f.Direction))
	dst = avro.AppendText(dst, f.Author)
	dst = avro.AppendText(dst, f.Reason)
	dst = avro.AppendLong(dst, f.WrittenAt)
	if r := f.Resume; r == nil {
		dst = avro.AppendLong(dst, 0)
	} else {
		dst = avro.AppendText(avro.AppendLong(dst, 1), r.Topic)
		for _, n := range []int64{int64(r.Partition), r.Offset, r.Until} {
			dst = avro.AppendLong(dst, n)
		}
	}
	if a := f.Alarm; a == nil {
		dst = avro.AppendLong(dst, 0)
	} else {
		dst = avro.AppendText(avro.AppendText(avro.AppendLong(dst, 1), a.Detector), a.Series)
		dst = avro.AppendLong(avro.AppendLong(dst, int64(a.Field)), int64(a.Side))
		for _, v := range [...]float64{a.Opened, a.Peak} {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
		dst = avro.AppendLong(avro.AppendLong(dst, a.Samples), a.Lasted)
		for _, v := range [...]float64{a.First, a.Apart, a.Initial, a.Range} {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
		dst = appendOptional(avro.AppendLong(avro.AppendLong(dst, a.Early), a.Held), a.Topic)
	}
	dst = appendOptional(dst, f.Topic)
	if f.Partition == nil {
		dst = avro.AppendLong(dst, 0)
	} else {
		dst = avro.AppendLong(avro.AppendLong(dst, 1), int64(*f.Partition))
	}
	if schemaID == JSON {
		return compiledFeedback.asJSON(dst, start)
	}
	return dst
}

// appendOptional appends a text that may be null, which "" stands for.
func appendOptional(dst []byte, text string) []byte {
	if text == "" {
		return avro.AppendLong(dst, 0)
	}
	return avro.AppendText(avro.AppendLong(dst, 1), text)
}

// DecodeFeedback reads a record of the feedback topic in any framing or in JSON. The schema id is not compared with
// anything: whoever writes there uses this schema.
func DecodeFeedback(b []byte) (Feedback, error) {
	var f Feedback
	b, err := compiledFeedback.unframe(b)
	if err != nil {
		return f, fmt.Errorf("output: feedback: %w", err)
	}
	r := avro.NewFieldReader(b)
	f.ID = string(r.Text())
	f.Kind = uint8(r.Index(len(FeedbackKinds)))
	for _, text := range []*string{&f.Anomaly, &f.Detector, &f.Keys} {
		if r.Index(2) == 1 {
			*text = string(r.Text())
		}
	}
	for _, at := range []**int64{&f.From, &f.To} {
		if r.Index(2) == 1 {
			t := r.Long()
			*at = &t
		}
	}
	f.Direction = uint8(r.Index(len(FeedbackDirections)))
	f.Author, f.Reason = string(r.Text()), string(r.Text())
	f.WrittenAt = r.Long()
	if r.Index(2) == 1 {
		f.Resume = &Resume{Topic: string(r.Text()), Partition: r.Int(), Offset: r.Long(), Until: r.Long()}
	}
	if r.Index(2) == 1 {
		f.Alarm = &Alarm{Detector: string(r.Text()), Series: string(r.Text()), Field: r.Int(), Side: uint8(r.Index(len(FeedbackDirections))),
			Opened: r.Double(), Peak: r.Double(), Samples: r.Long(), Lasted: r.Long(), First: r.Double(), Apart: r.Double(),
			Initial: r.Double(), Range: r.Double(), Early: r.Long(), Held: r.Long()}
		if r.Index(2) == 1 {
			f.Alarm.Topic = string(r.Text())
		}
	}
	if r.Index(2) == 1 {
		f.Topic = string(r.Text())
	}
	if r.Index(2) == 1 {
		p := r.Int()
		f.Partition = &p
	}
	if err := r.End(); err != nil {
		return Feedback{}, fmt.Errorf("output: feedback: %w", err)
	}
	return f, f.check()
}

func (f *Feedback) check() error {
	switch {
	case f.ID == "" || len(f.ID) > 300:
		return errors.New("output: feedback: the id is empty or longer than 300 bytes")
	case f.Kind <= FeedbackMaintenance && f.From != nil && f.To != nil && *f.From >= *f.To:
		return errors.New("output: feedback: to is not after from")
	case f.Kind == FeedbackMaintenance && (f.From == nil || f.To == nil):
		return errors.New("output: feedback: a maintenance needs from and to")
	case (f.Kind == FeedbackConfirm || f.Kind == FeedbackFalseAlarm) && f.Anomaly == "":
		return errors.New("output: feedback: confirm and false_alarm need the id of an anomaly")
	case f.Partition != nil && (f.Topic == "" || *f.Partition < 0):
		return errors.New("output: feedback: a partition needs a topic, and is 0 or more")
	case (f.Kind == FeedbackResume) != (f.Resume != nil):
		return errors.New("output: feedback: resume, and no other kind, needs a partition")
	}
	return nil
}
