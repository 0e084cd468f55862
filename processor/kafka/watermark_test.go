package kafka

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

// TestFetchPastHighWatermark: a broker takes the high watermark of its answer before
// it reads, so the batches may lead past it. They are read all the same.
func TestFetchPastHighWatermark(t *testing.T) {
	for _, watermark := range []int64{0, 2} {
		t.Run(fmt.Sprint("watermark ", watermark), func(t *testing.T) {
			fake := brokertest.Cluster(t, kfake.SeedTopics(1, "in"))
			cl := brokertest.Franz(t, fake.ListenAddrs())
			brokertest.Write(t, cl, "in", 0, 0, 2)
			brokertest.Write(t, cl, "in", 0, 2, 3)
			late := 0
			fake.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				fake.KeepControl()
				req := kreq.(*kmsg.FetchRequest)
				if late == 2 || len(req.Topics) == 0 || len(req.Topics[0].Partitions) == 0 {
					return nil, nil, false
				}
				late++
				res := req.ResponseKind().(*kmsg.FetchResponse)
				rt, rp := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
				rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
				rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = watermark, watermark, 0
				for _, b := range [][]byte{simple(t, 0, 2), simple(t, 2, 3)} {
					if int64(b[7]) >= req.Topics[0].Partitions[0].FetchOffset {
						rp.RecordBatches = append(rp.RecordBatches, b...)
					}
				}
				rt.Partitions = append(rt.Partitions, rp)
				res.Topics = append(res.Topics, rt)
				return res, nil, true
			})
			f := NewFetcher(OpenForTest(t, fake.ListenAddrs()), FetchConfig{MaxWait: 50 * time.Millisecond})
			defer f.Close()
			var got []string
			readTo(t, f.Add(brokertest.TP("in", 0), 0), 0, 5, func(r *record.Record) { got = append(got, string(r.Value)) })
			if !slices.Equal(got, []string{"0", "1", "2", "3", "4"}) || late != 2 {
				t.Errorf("read %v after %d answers with a watermark that lags", got, late)
			}
		})
	}
}
