package browser

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"odradek/processor/kafkatest"
)

// TestBacktest: the page of a series compares another sensitivity on the records that the topic has: a small fault that only the other
// one finds is drawn as such, in every look.
func TestBacktest(t *testing.T) {
	b := open(t)
	worker := buildWorker(t)
	p := newPlant(t)
	var records []kafkatest.Record
	start := time.Now().Add(-3000 * time.Second)
	for i := range 3000 {
		at := start.Add(time.Duration(i) * time.Second)
		v := 70 + math.Sin(float64(i))
		if i >= 800 && i < 830 {
			v += 8 // both find that it rises, and that it falls
		}
		if i == 2000 || i == 2001 {
			v = 71.8
		}
		records = append(records, kafkatest.Record{Topic: topic, Partition: -1, Key: []byte(machines[0]), Time: at.UnixMilli(),
			Value: fmt.Appendf(nil, `{"machine":%q,"at":%d,"temperature":%.3f}`, machines[0], at.UnixMilli(), v)})
	}
	if _, err := p.cluster.ProduceAcked(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	p.runWorker(t, worker, "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=machine", "ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=temperature",
		"ODRADEK_PRESET=change")
	b.look(looks[0])
	b.do(chromedp.Navigate(p.page), chromedp.Evaluate(fmt.Sprintf(`sessionStorage.setItem('token', %q); location.reload()`, token), nil))
	b.wait("the fault is listed", rows("Closed anomalies", machines[0])+".length")
	b.forgive("401 (Unauthorized)")
	b.do(chromedp.Evaluate(rows("Closed anomalies", machines[0])+`[0].querySelector('a').click()`, nil))
	const panel = `document.getElementById('backtest')`
	b.wait("other sensitivities are offered", panel+`?.checkVisibility() && [...`+panel+`.querySelectorAll('[name=sensitivity] option')].map(o => o.value).join() === 'low,high'`)
	compare := func(sensitivity string) {
		b.do(chromedp.Evaluate(panel+fmt.Sprintf(`.querySelector('[name=sensitivity]').value = %q`, sensitivity), nil),
			chromedp.Evaluate(panel+`.querySelector('form button').click()`, nil))
	}
	compare("high")
	const sides = "What each sensitivity finds"
	b.wait("the fault that only high finds is counted", rows(sides, "normal (in force)")+`[0]?.cells[1].textContent === '2' && `+
		rows(sides, "high")+`[0]?.cells[1].textContent === '3'`)
	text := b.text(panel + `.innerText`)
	for _, want := range []string{"3,000 samples from", "ODRADEK_SENSITIVITY=high", "The topic has no others."} {
		if !strings.Contains(text, want) {
			t.Errorf("the panel says %s, want %q", text, want)
		}
	}
	const drawnMarks = `(() => {
		const c = ` + panel + `.querySelector('.chart canvas'), w = c.width, d = c.getContext('2d').getImageData(0, 0, w, 48).data;
		const rows = [0, 0];
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 150 && d[i] > d[i + 2] + 80) rows[Math.floor(i / 4 / w / 28)]++;
		return rows[0] === 0 && rows[1] > 20;
	})()`
	b.wait("only the row of high has a filled mark", drawnMarks)
	b.do(chromedp.Evaluate(panel+`.querySelector('details').open = true`, nil))
	b.wait("the anomalies are listed", rows("Anomalies of the comparison", "")+`.map(r => r.cells[4].textContent).join() === 'high,both,both'`)
	b.looked("backtest", "")
	compare("low")
	b.wait("the other one is compared", rows(sides, "low")+`[0]?.cells[1].textContent === '2'`)
	compare("high")
	b.do(chromedp.Evaluate(`location.hash = '#/'`, nil)) // ends the comparison
	b.wait("the anomalies are back", rows("Closed anomalies", machines[0])+".length")

	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) > 0 {
		t.Errorf("the console has had errors: %q", b.faults)
	}
}
