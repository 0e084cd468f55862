package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// TestSuggestReads: suggest finds what has to be read in another way than as it is there, says why, and worker try reads the records
// with what it proposes.
func TestSuggestReads(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) // of lines
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }
	quality := func(i int) string {
		switch {
		case i%10 == 7:
			return "BAD"
		case i%50 == 11:
			return "UNCERTAIN"
		}
		return "GOOD"
	}
	for name, x := range map[string]struct {
		record func(i int) (key, value string)
		want   []string // lines of the file, and words of its comments
		not    string
		read   string // of worker try
	}{
		"numbers in quotes": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"timestamp":%q,"value":"%.2f","name":"node_load1","labels":{"instance":"h%d"}}`,
				at(i).Format(time.RFC3339), wave(i)+float64(20*(i%2)), i%2)
		}, []string{"text_values: number", "value_fields: [value]", "The numbers of value are in quotes, such as", "time_field: timestamp",
			"labels.instance"}, "time_zone", "20 read"},
		"milliseconds as text": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"id":"s%d","t":"%d","value":%v}`, i%2, at(i).UnixMilli(), wave(i)+float64(20*(i%2)))
		}, []string{"time_field: t", "time_unit: ms"}, "text_values", "20 read"},
		"local times": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"id":"s%d","t":%q,"value":%v}`, i%2, at(i).Add(time.Hour).Format("2006-01-02T15:04:05.000000"),
				wave(i)+float64(20*(i%2)))
		}, []string{"time_field: t", "time_zone: Etc/GMT-1", "have no offset", "Kafka's timestamp is 0s after it", "name the place"},
			"time_layout", "20 read"},
		"times of another layout": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"id":"s%d","t":%q,"value":%v}`, i%2, at(i).Format("02.01.2006 15:04:05"), wave(i)+float64(20*(i%2)))
		}, []string{"time_field: t", "time_zone: UTC", `time_layout: "%d.%m.%Y %H:%M:%S"`, "As UTC they fit"}, "", "20 read"},
		"quality": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"id":"s%d","value":%v,"meta":{"quality":%q}}`, i%2, wave(i)+float64(20*(i%2)), quality(i))
		}, []string{`only_if: "meta.quality in [\"GOOD\"]"`, "meta.quality is \"GOOD\" in",
			"this leaves out 72 records: BAD in 60, UNCERTAIN in 12."}, "", " filtered"},
		"other words of quality": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"id":"s%d","value":%v,"status":%q}`, i%2, wave(i)+float64(20*(i%2)), []string{"OK", "RUNNING"}[i/40%2])
		}, []string{`#only_if: "status in [\"OK\"]"`, "Not certain. "}, "", "20 read"},
		"a flag": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"id":"s%d","value":%v,"valid":%t}`, i%2, wave(i)+float64(20*(i%2)), i%10 != 7)
		}, []string{"only_if: valid\n", "false in 60"}, "", " filtered"},
		"a code of OPC": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"id":"s%d","value":%v,"quality":%d}`, i%2, wave(i)+float64(20*(i%2)), []int{192, 192, 192, 216, 0}[i%5])
		}, []string{"only_if: quality >= 192", "0 in 120"}, "", " filtered"},
		"booleans between numbers": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"node":"plc1","metrics":[{"name":"Temp","timestamp":%d,"value":%v},{"name":"Flow","timestamp":%d,"value":%v},`+
				`{"name":"Rebirth","timestamp":%d,"value":false}]}`, at(i).UnixMilli(), wave(i), at(i).UnixMilli(), wave(i+9)+50, at(i).UnixMilli())
		}, []string{"readings_field: metrics", "value_fields: [metrics.value]", "metrics.name"}, "", "20 read"},
		"a key in JSON": {func(i int) (string, string) {
			machine := i % 3
			key := fmt.Sprintf(`{"machine":"m-%d","schema":2}`, machine)
			if i > 300 { // another writer's order
				key = fmt.Sprintf(`{"schema":2,"machine":"m-%d"}`, machine)
			}
			return key, fmt.Sprintf(`{"value":%v}`, wave(i)+float64(20*machine))
		}, []string{`key_field: "@key.machine"`, "3 distinct keys"}, "", "20 read"},
		"decimals of Debezium": {func(i int) (string, string) {
			b := binary.BigEndian.AppendUint32(nil, uint32(int32(100*(wave(i)+float64(20*(i%2))))))
			return "", fmt.Sprintf(`{"before":null,"after":{"id":"s%d","price":%q},"op":"u","ts_ms":%d}`, i%2, base64.StdEncoding.EncodeToString(b),
				at(i).UnixMilli())
		}, []string{"decimals: [after.price=2]", "value_fields: [after.price]", "Not certain: decimals in base64", "key_field: after.id"},
			"", "20 read"},
		"events": {func(i int) (string, string) {
			when := at(i).Add(time.Duration(i*i%997) * 40 * time.Millisecond)
			return "", fmt.Sprintf(`{"at":%d,"host":"h%d","event":"login"}`, when.UnixMilli(), i*i%7%3)
		}, []string{"compute: events=1.0", "value_fields: [events]", "every: 1m", "aggregate: [count]", "empty: zero", "key_field: host"},
			"duplicates", "20 "},
		"irregular times": {func(i int) (string, string) {
			return "", fmt.Sprintf(`{"at":%d,"id":"s%d","value":%v}`, at(i/10*60+i%10).UnixMilli(), i%2, wave(i)+float64(20*(i%2)))
		}, []string{"#every: 1m", "#aggregate: [mean]", "a tenth of the pauses is below 2s, a tenth above 52s"}, "every", "20 read"},
		"numbers that come and go": {func(i int) (string, string) {
			var list []string
			for k := range 12 {
				if (i/2+k)%5 > 0 {
					list = append(list, fmt.Sprintf(`"t%d":%v`, k, wave(i+k)+float64(20*(i%2))))
				}
			}
			return "", fmt.Sprintf(`{"id":"s%d","metrics":{"motor":{%s},"state":"RUN"}}`, i%2, strings.Join(list, ","))
		}, []string{"series_fields: [metrics.motor.*]", "Records have different ones of the 12 fields below metrics.motor",
			"#series_fields: [metrics.motor.t"}, "value_fields", "20 read"},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.Topic(t, "reads", 1)
			_, err := c.ProduceAcked(t.Context(), lines(topic, 600, x.record))
			must(t, err)
			_, text := suggestedFor(t, c, topic)
			flat := strings.Join(strings.Fields(strings.ReplaceAll(text, "\n#", " ")), " ")
			for _, want := range x.want {
				if !strings.Contains(text, want) && !strings.Contains(flat, want) {
					t.Errorf("want %q in\n%s", want, text)
				}
			}
			if x.not != "" && strings.Contains(text, "\n"+x.not+":") {
				t.Errorf("there is %s in\n%s", x.not, text)
			}
			file := filepath.Join(t.TempDir(), "plant.yaml")
			must(t, os.WriteFile(file, []byte(text), 0o600))
			term, out, errs := console()
			if code := term.try(t.Context(), []string{"-config", file}); code != exitOK || !strings.Contains(out.String(), x.read) {
				t.Errorf("exit %d, want %q of\n%s%s", code, x.read, out, errs)
			}
		})
	}
}
