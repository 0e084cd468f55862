package suggest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/try"
)

// shapeRecord is a record of testdata/shapes, and the samples that a right mapping reads of it.
type shapeRecord struct {
	Key   *string
	Time  int64 // ms
	Value []byte
	Want  []struct {
		Key    string
		Time   int64 // µs
		Values []*float64
	}
}

func shapeRecords(t *testing.T, name string) (list []shapeRecord) {
	f, err := os.Open(filepath.Join("testdata", "shapes", name+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r shapeRecord
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if err := lines.Err(); err != nil || len(list) < 100 {
		t.Fatalf("%d records: %v", len(list), err)
	}
	return list
}

// TestShapes: suggest finds the settings of the shapes that common encoders write (testdata/shapes), and these settings read every
// sample that was given to the encoder, by its key, time and values, without a dead letter.
func TestShapes(t *testing.T) {
	const (
		lines = "time_field=timestamp time_unit=ns key_field=name+tags.cpu+tags.host series_fields=fields.usage_idle,fields.usage_system," +
			"fields.usage_user,fields.used_percent,fields.bytes_recv,fields.bytes_sent transform=fields.bytes_recv=rate,fields.bytes_sent=rate"
		points = `readings_field=@value time_field=time key_field=resource.host\.name+name+attributes.state series_fields=gauge,counter ` +
			"transform=counter=rate"
		metrics = "readings_field=metrics time_field=metrics.timestamp time_unit=ms key_field=@key+metrics.name value_fields=metrics."
	)
	for name, x := range map[string]struct {
		environ []string
		want    string // settings, in the order of the file
		comment string // words of the comments
	}{
		"cloudevents": {want: "format=json time_field=time key_field=source value_fields=data.temperature,data.vibration",
			comment: "4 distinct keys in 480 records"},
		"senml": {want: "format=json readings_field=@value time_field=@timestamp key_field=@key+n value_fields=v",
			comment: "9 distinct keys, all that occur of 3 of @key and 3 of n"},
		"telegraf-json": {want: "format=json time_field=timestamp time_unit=s key_field=tags.cpu+tags.host " +
			"value_fields=fields.usage_system,fields.usage_user"},
		"telegraf-lines": {want: "format=influx " + lines, comment: "fields.total (does not change)"},
		"telegraf-batch": {want: "format=influx readings_field=@value " + lines, comment: "what is judged is their increase per second"},
		"otlp-json":      {want: "format=otlp " + points, comment: "what is judged is their increase per second"},
		"otlp-proto":     {want: "format=otlp " + points},
		"prometheus": {want: "format=json time_field=timestamp key_field=labels.__name__+labels.instance " +
			`compute=gauge=labels.__name__.endsWith("_total") ? dyn(null) : double(value), counter=labels.__name__.endsWith("_total") ? ` +
			"double(value) : dyn(null) series_fields=gauge,counter transform=counter=rate",
			comment: `labels.__name__ ("node_network_receive_bytes_total")`},
		"sitewise": {want: "format=json readings_field=payload.values time_field=payload.values.timestamp.timeInSeconds time_unit=s " +
			"key_field=payload.assetId+payload.propertyId value_fields=payload.values.value.doubleValue " +
			`only_if=payload.values.quality in ["GOOD"]`, comment: "offsetInNanos (is a time)"},
		"opcua": {want: "format=json readings_field=Messages time_field=Messages.Timestamp " +
			"key_field=Messages.DataSetWriterId+PublisherId value_fields=Messages.Payload.Pressure.Value,Messages.Payload.Temperature.Value",
			comment: "SequenceNumber (only grows)"},
		"debezium": {want: "format=json tombstones=skip time_field=after.taken_at time_unit=us key_field=after.machine " +
			"value_fields=after.temperature,after.cost decimals=after.cost=2 only_if=has(after.taken_at) && has(after.machine)",
			comment: "8 records lack after.taken_at or after.machine, and would be dead letters"},
		"debezium-schema": {want: "format=json tombstones=skip time_field=payload.after.taken_at time_unit=us " +
			"key_field=payload.after.machine value_fields=payload.after.temperature,payload.after.cost " +
			"only_if=has(payload.after.taken_at) && has(payload.after.machine)", comment: "8 records of 416 have no value (tombstones)"},
		"sparkplug": {want: "format=protobuf " + metrics + "double_value",
			environ: []string{"ODRADEK_FORMAT=protobuf", "ODRADEK_SCHEMA_FILE=testdata/shapes/sparkplug.proto"}},
		"sparkplug-json": {want: "format=json " + metrics + "value"},
	} {
		t.Run(name, func(t *testing.T) {
			list := shapeRecords(t, name)
			var records []raw
			for i := range list {
				r := raw{offset: int64(i), timestamp: list[i].Time, value: list[i].Value}
				if list[i].Key != nil {
					r.key = []byte(*list[i].Key)
				}
				records = append(records, r)
			}
			c, s, err := mappingOfRecords(records, x.environ...)
			if err != nil {
				t.Fatal(err)
			}
			var got, comments []string
			for _, set := range s.settings {
				if !set.Off {
					got = append(got, set.Key+"="+set.Value)
				}
				comments = append(comments, set.Comment)
			}
			if got := strings.Join(got, " "); got != x.want {
				t.Errorf("proposed\n%s, want\n%s", got, x.want)
			}
			if said := strings.Join(comments, " "); !strings.Contains(said, x.comment) {
				t.Errorf("want %q in %s", x.comment, said)
			}
			cfg, err := c.with(s.settings)
			if err != nil {
				t.Fatal(err)
			}
			trial := try.New(cfg, nil)
			defer trial.Close()
			for i := range records {
				if err := trial.Read(t.Context(), &try.Record{Topic: "in", Offset: int64(i), Timestamp: records[i].timestamp, Key: records[i].key,
					Value: records[i].value}); err != nil {
					t.Fatal(err)
				}
			}
			results, err := trial.End(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			wrong := 0
			for i, r := range results {
				var read, want []string
				for _, sm := range r.Samples {
					line := fmt.Sprintf("%s at %s:", sm.Key, sm.Time.Format(time.RFC3339Nano))
					for _, v := range sm.Values {
						line += " " + numberText(v.Read)
					}
					if sm.Outcome != try.Read && sm.Outcome != try.Missing {
						line += fmt.Sprintf(" %s: %s", sm.Outcome, sm.Reason)
					}
					read = append(read, line)
				}
				for _, w := range list[i].Want {
					line := fmt.Sprintf("%s at %s:", w.Key, time.UnixMicro(w.Time).UTC().Format(time.RFC3339Nano))
					for _, v := range w.Values {
						line += " " + numberText(v)
					}
					want = append(want, line)
				}
				slices.Sort(read)
				slices.Sort(want)
				if r.Outcome == try.Dead || !slices.Equal(read, want) {
					if wrong++; wrong <= 2 {
						t.Errorf("%s\n%s %s\nread %s\nwant %s", records[i].value, r.Outcome, r.Reason, strings.Join(read, "\n     "),
							strings.Join(want, "\n     "))
					}
				}
			}
			if wrong > 2 {
				t.Errorf("%d of %d records are read wrongly", wrong, len(results))
			}
		})
	}
}

func numberText(v *float64) string {
	if v == nil {
		return "missing"
	}
	return fmt.Sprint(*v)
}
