package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"odradek/processor/kafkatest"
)

// TestGrids: the heatmap of discords and the grid of a scan are drawn, for an anomaly of each, with their text as a table.
func TestGrids(t *testing.T) {
	b := open(t)
	p := newPlant(t)
	start := time.Now().Add(-history * time.Second).Truncate(time.Minute)
	var records []kafkatest.Record
	for i := range history {
		p.set(machines[0], i >= 480 && i < 520)
		records = append(records, p.record(machines[0], start.Add(time.Duration(i)*time.Second)))
	}
	if _, err := p.cluster.ProduceAcked(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	p.runWorker(t, buildWorker(t), "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=machine", "ODRADEK_TIME_FIELD=at",
		"ODRADEK_VALUE_FIELDS=temperature,vibration", "ODRADEK_DETECTORS=odd,hot",
		"ODRADEK_DETECTOR_ODD_OP=discords", "ODRADEK_DETECTOR_ODD_FIELDS=temperature", "ODRADEK_DETECTOR_ODD_WINDOW=256",
		"ODRADEK_DETECTOR_ODD_MIN_LENGTH=16", "ODRADEK_DETECTOR_ODD_MAX_LENGTH=64", "ODRADEK_DETECTOR_ODD_LENGTH_STEP=4",
		"ODRADEK_DETECTOR_ODD_THRESHOLD=fixed:0.3",
		"ODRADEK_DETECTOR_HOT_OP=scan", "ODRADEK_DETECTOR_HOT_FIELDS=temperature,vibration", "ODRADEK_DETECTOR_HOT_WINDOW=160",
		"ODRADEK_DETECTOR_HOT_COLUMNS=16", "ODRADEK_DETECTOR_HOT_GRID=60s", "ODRADEK_DETECTOR_HOT_GRID_BOX=40,0,120,1", "ODRADEK_DETECTOR_HOT_GRID_LEARN=4")
	b.look(looks[0])
	b.do(chromedp.Navigate(p.page))
	b.wait("the page asks for the token", `document.querySelector('dialog[open] input[type=password]')`)
	b.do(chromedp.SendKeys(`dialog input[type=password]`, token+"\r"))
	for _, c := range []struct{ detector, title, table string }{{"odd", "Discords of odd", "16"}, {"hot", "Region of hot", "Observed"}} {
		row := `document.querySelectorAll('table tbody tr').values().toArray().filter(r => r.textContent.includes('` + c.detector + `') && r.querySelector('a'))`
		b.do(chromedp.Evaluate(`location.hash = '#/'`, nil))
		b.wait("an anomaly of "+c.detector+" is listed", `document.getElementById('open-head') && `+row+`.length`)
		b.forgive("401 (Unauthorized)") // the refusals of requests without a token, the last of which may be logged late
		b.do(chromedp.Evaluate(row+`.at(-1).querySelector('a').click()`, nil))
		b.wait(c.title+" is drawn", fmt.Sprintf(`(() => {
			const section = [...document.querySelectorAll('.cells')].find(s => s.textContent.startsWith(%q));
			if (!section || !section.querySelector('table').textContent.includes(%q)) return false;
			const c = section.querySelector('canvas'), colours = new Set(), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
			for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) colours.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
			return colours.size >= 4;
		})()`, c.title, c.table))
		b.do(chromedp.Evaluate(`document.getElementById('charts').hidden = true`, nil)) // so that the canvas is in the picture
		b.picture("grids-" + c.detector)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		t.Error(f)
	}
}
