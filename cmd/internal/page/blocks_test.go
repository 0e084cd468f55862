package page

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
	"odradek/detectors/discord"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// configured returns what Configure makes of a discords detector with a stride, one with tumbling windows and a grid.
func configured(t *testing.T) *Config {
	t.Helper()
	c, faults, _ := config.Parse([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_KAFKA_BROKERS=localhost:1", "ODRADEK_FORMAT=json",
		"ODRADEK_KEY_FIELD=id", "ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=x,y", "ODRADEK_DETECTORS=slide,tumble,hot",
		"ODRADEK_DETECTOR_SLIDE_OP=discords", "ODRADEK_DETECTOR_SLIDE_WINDOW=100", "ODRADEK_DETECTOR_SLIDE_STRIDE=25",
		"ODRADEK_DETECTOR_SLIDE_MIN_LENGTH=10", "ODRADEK_DETECTOR_SLIDE_MAX_LENGTH=30", "ODRADEK_DETECTOR_SLIDE_LENGTH_STEP=10",
		"ODRADEK_DETECTOR_SLIDE_FIELDS=x", "ODRADEK_DETECTOR_TUMBLE_OP=discords", "ODRADEK_DETECTOR_TUMBLE_WINDOW=100",
		"ODRADEK_DETECTOR_TUMBLE_TUMBLING=true", "ODRADEK_DETECTOR_TUMBLE_MIN_LENGTH=10", "ODRADEK_DETECTOR_TUMBLE_MAX_LENGTH=30",
		"ODRADEK_DETECTOR_HOT_OP=scan", "ODRADEK_DETECTOR_HOT_WINDOW=32", "ODRADEK_DETECTOR_HOT_COLUMNS=8", "ODRADEK_DETECTOR_HOT_GRID=1m",
		"ODRADEK_DETECTOR_HOT_GRID_BOX=-2,0,14,4"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	out, err := Configure(c, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestConfigureBlocks: which detectors have heatmaps, how many samples of a task are not searched, and the grid are as the
// settings say.
func TestConfigureBlocks(t *testing.T) {
	c := configured(t)
	grid := Grid{Columns: 8, Rows: 4, X: "x", Y: "y", X0: -2, X1: 14, Y1: 4}
	slide, tumble, hot := c.Detectors[0], c.Detectors[1], c.Detectors[2]
	if c.Blocks != "g-blocks" || !slide.Heatmap || slide.Lead != 24 || slide.Grid != nil || !tumble.Heatmap || tumble.Lead != 0 ||
		hot.Heatmap || hot.Grid == nil || *hot.Grid != grid {
		t.Errorf("blocks %q, detectors %+v", c.Blocks, c.Detectors)
	}
}

// heatmapOf is the heatmap of a window of slide, with a discord whose place follows from the number of the window.
func heatmapOf(window int) (*discord.Heatmap, []byte) {
	h := discord.NewHeatmap(100, discord.Lengths{Min: 10, Max: 30, Step: 10}, 200)
	h.AddDiscord(discord.Discord{At: 10 + window, Length: 20, Distance: 2}, 1)
	data, _ := h.AppendBinary(nil)
	return h, data
}

// blockRecord is the block of window number i of a series: of samples 25*i to 25*i+123, one a second.
func (b *bed) blockRecord(key, detector string, i int, data []byte) kafkatest.Record {
	last := 25*i + 123
	header := func(name, value string) kafkatest.Header { return kafkatest.Header{Key: name, Value: []byte(value)} }
	return kafkatest.Record{Topic: "blocks", Partition: -1, Key: []byte(key), Time: b.at(last) / 1000, Value: data,
		Headers: []kafkatest.Header{header("odradek.source.topic", "in"), header("odradek.source.partition", "0"),
			header("odradek.source.offset", strconv.Itoa(last)),
			header("content-type", discord.MediaType), header("odradek.detector", detector),
			header("odradek.from", strconv.FormatInt(b.at(25*i), 10)), header("odradek.to", strconv.FormatInt(b.at(last), 10))}}
}

// TestBlocks: the answer has the heatmap that was published of the window in which the peak was scored, of its series and
// detector alone; one of a later window where there is none; and no more is read than the budget.
func TestBlocks(t *testing.T) {
	b := newBed(t, func(c *Config) {
		own := configured(t)
		c.Detectors, c.Blocks = own.Detectors, "blocks"
	})
	b.topic("anomalies", 1)
	anomaly := func(id byte, detector string, second, end int) kafkatest.Record {
		return b.anomaly(id, 1, 0, "pump-1", second, func(a *output.Anomaly) {
			a.Detector, a.End, a.Offset = detector, b.at(end), int64(end)
		})
	}
	b.write(anomaly(1, "slide", 510, 515), anomaly(2, "slide", 10, 12), anomaly(3, "hot", 100, 160), anomaly(4, "slide", 5000, 5001),
		anomaly(5, "slide", 700, 1400), anomaly(6, "slide", 1625, 1626))
	b.list(AnomalyQuery{}, "the anomalies are read", func(l *AnomalyList) bool { return l.Open == 6 })
	ask := func(id byte) *Blocks {
		t.Helper()
		answer, err := b.Blocks(t.Context(), hex.EncodeToString([]byte{id, 15: 0}))
		if err != nil {
			t.Fatalf("%d: %v", id, err)
		}
		return answer
	}
	said := func(a *Blocks, words string) bool {
		return len(a.Notes) == 1 && strings.Contains(a.Notes[0], words)
	}
	if a := ask(1); a.Heatmap != nil || !said(a, "does not exist") {
		t.Errorf("without a topic: %+v", a)
	}
	b.topic("blocks", 2)
	var records []kafkatest.Record
	for i := 4; i < 60; i++ { // earlier blocks are gone
		_, data := heatmapOf(i)
		other := b.blockRecord("pump-1", "slide", i, []byte("of another kind"))
		other.Headers[3].Value = []byte("text/plain")
		records = append(records, b.blockRecord("pump-1", "slide", i, data), b.blockRecord("pump-2", "slide", i, data[:40]),
			b.blockRecord("pump-1", "tumble", i, data[:40]), other)
	}
	b.write(records...)
	const window = 16 // the first that includes the peak, at 511: of samples 400 to 523
	h, _ := heatmapOf(window)
	a := ask(1)
	if len(a.Notes) > 0 || a.Heatmap == nil || a.Detector != "slide" || a.Grid != nil || a.Bytes == 0 || a.Bytes > a.Budget {
		t.Fatalf("%+v", a)
	}
	m := a.Heatmap
	if m.Source != (Origin{Topic: "in", Offset: 25*window + 123}) || m.MinLength != 10 || m.MaxLength != 30 || m.LengthStep != 10 ||
		m.Columns != h.Columns || len(m.Cells) != h.Rows || m.From != float64(b.at(25*window+24))/1000 || m.To != m.From+91_000 {
		t.Errorf("%+v, published %+v", m, h)
	}
	lit := 0
	for i, v := range slices.Concat(m.Cells...) {
		if v != int(h.Cells[i]) {
			t.Errorf("cell %d is %d, published %d", i, v, h.Cells[i])
		}
		lit += min(v, 1)
	}
	if lit == 0 {
		t.Error("the heatmap is empty")
	}
	if a := ask(2); a.Heatmap == nil || a.Heatmap.Source.Offset != 25*4+123 || !said(a, "later window") {
		t.Errorf("blocks of the anomaly are gone: %+v", a)
	}
	if a := ask(4); a.Heatmap != nil || !said(a, "none of the") {
		t.Errorf("no block is that late: %+v", a)
	}
	if a := ask(5); a.Heatmap == nil || a.Heatmap.Source.Offset != 25*24+123 || len(a.Notes) > 0 {
		t.Errorf("an anomaly longer than a window: %+v", a)
	}
	if a := ask(3); a.Heatmap != nil || a.Grid == nil || a.Grid.Columns != 8 || a.Records != 0 || len(a.Notes) > 0 {
		t.Errorf("an anomaly of a grid: %+v", a)
	}
	var e *Error
	if _, err := b.Blocks(t.Context(), "12"); !errors.As(err, &e) || e.Code != 400 {
		t.Errorf("no id: %v", err)
	}
	large := make([]byte, 250_000)
	for i := range 90 { // 22 MB
		records = append(records[:0:0], b.blockRecord("pump-1", "tumble", 60+i, large))
		b.write(records...)
	}
	if a := ask(4); a.Bytes > blocksBudget || a.Bytes < blocksBudget/4 || a.Heatmap != nil {
		t.Errorf("%d bytes are read of a large topic: %v", a.Bytes, a.Notes)
	}
	if a := ask(2); a.Bytes > blocksBudget || a.Heatmap == nil {
		t.Errorf("%d bytes are read of a large topic: %v", a.Bytes, a.Notes)
	}
	if a := ask(6); a.Bytes > blocksBudget || a.Bytes < blocksBudget*3/4 || a.Heatmap != nil {
		t.Errorf("%d bytes are read of a large topic after the anomaly: %v", a.Bytes, a.Notes)
	}
	b.write(b.blockRecord("pump-1", "slide", 199, []byte("no heatmap")))
	if a, err := b.Blocks(t.Context(), fmt.Sprintf("%x", [16]byte{4})); err == nil || !strings.Contains(err.Error(), "no heatmap") {
		t.Errorf("a damaged block: %+v, %v", a, err)
	}
}
