package kafkaconnect

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/processor/kafkatest"
)

// plant is a topic of sensors with a worker behind it.
type plant struct {
	t         *testing.T
	cluster   *kafkatest.Cluster
	input     string
	anomalies string // the topic
	group     string
	rng       *rand.Rand
	at        time.Time
}

// sensors is how many sensors the plant has.
const sensors = 60

// newPlant starts a worker with settings besides the plant's.
func newPlant(t *testing.T, cluster *kafkatest.Cluster, settings ...string) *plant {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p := &plant{t: t, cluster: cluster, input: cluster.Topic(t, "sensors", 3), group: kafkatest.Unique("plant"),
		rng: rand.New(rand.NewPCG(seed, 1)), at: time.UnixMilli(1_767_225_600_000).UTC()}
	p.anomalies = p.group + "-anomalies"
	if err := cluster.Admin().CreateTopic(t.Context(), p.anomalies, 3, 0, nil); err != nil {
		t.Fatal(err)
	}
	w := exec.Command(kafkatest.GoProgram(t, repository, "worker", "build", "./cmd/worker"), "run")
	w.Env = os.Environ()
	for _, s := range append([]string{"KAFKA_BROKERS=" + strings.Join(cluster.Brokers, ","), "GROUP=" + p.group, "TOPICS=" + p.input, "FORMAT=json",
		"KEY_FIELD=key", "TIME_FIELD=time", "VALUE_FIELDS=value", "GROUP_BY=^[^/]+", "HTTP_ADDR=off", "PAGE_ADDR=off", "EXECUTOR=cpu",
		"DETECTORS=level", "DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=40", "DETECTOR_LEVEL_THRESHOLD=fixed:5.5",
		"DETECTOR_LEVEL_CLOSE_AFTER=3", "DETECTOR_LEVEL_UPDATE_EVERY=2", "SCHEMA_REGISTRY_CACHE_DIR=off"}, settings...) {
		w.Env = append(w.Env, "ODRADEK_"+s)
	}
	start(t, "worker", w)
	return p
}

// step is some seconds of the plant: in each every sensor has a reading, those whose number is below failing one that is far off.
func (p *plant) step(seconds, failing int) {
	p.t.Helper()
	var records []kafkatest.Record
	for n := range seconds * sensors {
		i := n % sensors
		if i == 0 {
			p.at = p.at.Add(time.Second)
		}
		key, value := fmt.Sprintf("line-%d/sensor-%03d", i%4, i), p.rng.NormFloat64()
		if i < failing {
			value += 100 + 20*p.rng.Float64()
		}
		records = append(records, kafkatest.Record{Topic: p.input, Partition: int32(i % 3), Key: []byte(key), Time: p.at.UnixMilli(),
			Value: fmt.Appendf(nil, `{"key": %q, "time": %d, "value": %g}`, key, p.at.UnixMilli(), value)})
	}
	if _, err := p.cluster.ProduceAcked(p.t.Context(), records); err != nil {
		p.t.Fatal(err)
	}
}

// anomaly is the newest state of an anomaly, and how many records it has had.
type anomaly struct {
	fields  map[string]any
	records int
}

// records returns the records of the topic, read with another client and decoded by decode.
func (p *plant) records(decode func([]byte) (map[string]any, error)) (all []map[string]any) {
	p.t.Helper()
	records, err := kafkatest.ReadAll(p.t.Context(), p.cluster.Brokers, p.anomalies, true)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, r := range records {
		fields, err := decode(r.Value)
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, fields)
	}
	return all
}

// newest returns the anomalies of the topic, by id.
func (p *plant) newest(decode func([]byte) (map[string]any, error)) map[string]*anomaly {
	p.t.Helper()
	all := map[string]*anomaly{}
	for _, fields := range p.records(decode) {
		a := all[fields["id"].(string)]
		if a == nil {
			a = new(anomaly)
			all[fields["id"].(string)] = a
		}
		a.records++
		if a.fields == nil || fields["revision"].(int64) > a.fields["revision"].(int64) {
			a.fields = fields
		}
	}
	return all
}

// waitFor waits until there are n anomalies or more, all of one of the kinds.
func (p *plant) waitFor(decode func([]byte) (map[string]any, error), n int, kinds ...string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		got := map[string]int{}
		all := p.newest(decode)
		for _, a := range all {
			got[a.fields["kind"].(string)]++
		}
		wanted := 0
		for _, kind := range kinds {
			wanted += got[kind]
		}
		if len(all) >= n && wanted == len(all) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("there are anomalies %v, want %d that are %q", got, n, kinds)
		}
	}
}

// avro decodes records in Confluent's framing of the schema of the anomalies.
func avro(t *testing.T) (codec *goavro.Codec, decode func([]byte) (map[string]any, error)) {
	t.Helper()
	schema, err := os.ReadFile(repository + "/schemas/output/anomaly.avsc")
	if err != nil {
		t.Fatal(err)
	}
	if codec, err = goavro.NewCodec(string(schema)); err != nil {
		t.Fatal(err)
	}
	return codec, func(b []byte) (map[string]any, error) {
		if len(b) < 5 || b[0] != 0 {
			return nil, fmt.Errorf("%x is not framed", b)
		}
		v, rest, err := codec.NativeFromBinary(b[5:])
		if err != nil || len(rest) > 0 {
			return nil, fmt.Errorf("%w, %d bytes too many", err, len(rest))
		}
		return v.(map[string]any), nil
	}
}

// schemaID is the id in a framed record.
func schemaID(b []byte) uint32 { return binary.BigEndian.Uint32(b[1:]) }
