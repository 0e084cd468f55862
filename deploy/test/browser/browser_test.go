package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"odradek/processor/kafkatest"
)

// This file tests the page of a worker in headless Chromium, and takes its pictures for docs:
//
//	go test ./... -pictures ../../../docs/pictures
//
// It is a module of its own, so that what drives the browser is no dependency of the worker.

var pictures = flag.String("pictures", "", "`folder` to write pictures of the page to")

// patience bounds every wait for the page.
const patience = 2 * time.Minute

// browser is a tab, with what its console has had.
type browser struct {
	ctx context.Context
	t   *testing.T

	mu     sync.Mutex
	faults []string
}

// open starts Chromium; the test is skipped by name, or fails where it is required, without one.
func open(t *testing.T) *browser {
	t.Helper()
	kafkatest.SkipAsked(t, "chromium")
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		kafkatest.Missing(t, "chromium", &kafkatest.MissingError{What: "a browser", Err: errors.New("there is no chromium on the path")})
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("lang", "en-GB"), chromedp.Env("TZ=Europe/Berlin", "LANGUAGE=en_GB"))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to be root with one
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	quiet := func(string, ...any) {} // events of the browser that chromedp does not know
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(quiet))
	t.Cleanup(cancel)
	b := &browser{ctx: ctx, t: t}
	chromedp.ListenTarget(ctx, func(ev any) {
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.fault("exception: " + e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeAssert {
				b.fault(fmt.Sprintf("console.%s: %s", e.Type, arguments(e.Args)))
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError {
				b.fault(fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
			}
		}
	})
	b.do(log.Enable(), runtime.Enable(), watchText())
	return b
}

func arguments(args []*runtime.RemoteObject) (text string) {
	for _, a := range args {
		text += string(a.Value) + a.Description + " "
	}
	return text
}

func (b *browser) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
}

// forgive drops the faults so far that contain a text.
func (b *browser) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = slices.DeleteFunc(b.faults, func(f string) bool { return strings.Contains(f, text) })
}

// do runs actions, each within patience.
func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := b.ctx, context.CancelFunc(func() {})
	if chromedp.FromContext(b.ctx).Browser != nil { // a deadline on the first run would end the browser
		ctx, cancel = context.WithTimeout(b.ctx, patience)
	}
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("%v\n%s", err, b.state())
	}
}

// state is what the page shows.
func (b *browser) state() string {
	var text string
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.body.innerText`, &text)); err != nil {
		return err.Error()
	}
	return "the page:\n" + text
}

// wait waits until an expression of JavaScript is true.
func (b *browser) wait(what, expression string) {
	b.t.Helper()
	if !b.within(patience, expression) {
		b.t.Fatalf("%s: not after %v\n%s", what, patience, b.state())
	}
}

// within reports whether an expression becomes true in time.
func (b *browser) within(limit time.Duration, expression string) bool {
	b.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		var ok bool
		b.do(chromedp.Evaluate("!!("+expression+")", &ok))
		if ok || time.Now().After(end) {
			return ok
		}
	}
}

// text returns what an expression of JavaScript is, as text.
func (b *browser) text(expression string) string {
	b.t.Helper()
	var text string
	b.do(chromedp.Evaluate("String("+expression+")", &text))
	return text
}

// look is a size and a theme that the page is looked at in.
type look struct {
	name   string
	width  int64
	height int64
	theme  string
}

var looks = []look{{"1280-light", 1280, 900, "light"}, {"1280-dark", 1280, 900, "dark"}, {"390-light", 390, 844, "light"}, {"390-dark", 390, 844, "dark"}}

func (b *browser) look(l look) {
	b.t.Helper()
	b.do(emulation.SetDeviceMetricsOverride(l.width, l.height, 1, l.width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.theme}}))
}

// picture holds the page to its width, and the labels of charts to theirs, in every look, and writes pictures where they are asked for.
func (b *browser) picture(name string) { b.looked(name, *pictures) }

// looked holds the page to its width, and the labels of charts to theirs, in every look, and writes pictures to a folder, if it is named.
func (b *browser) looked(name, folder string) {
	b.t.Helper()
	for _, l := range looks {
		b.look(l)
		b.do(chromedp.Evaluate(settled, nil, awaited))
		b.readable(name + " in " + l.name)
		if over := b.text(`Math.max(document.documentElement.scrollWidth - innerWidth, 0)`); over != "0" {
			b.t.Errorf("%s in %s: %s px wider than the window: %s", name, l.name, over, b.text(widest))
		}
		if folder == "" {
			continue
		}
		var png []byte
		b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			png, err = page.CaptureScreenshot().WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
			return err
		}))
		if err := os.WriteFile(filepath.Join(folder, name+"-"+l.name+".png"), png, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	b.look(looks[0])
}

// settled is over when the charts have followed a new size.
const settled = `new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r, 100))))`

// awaited has an evaluation wait for its promise.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// widest lists what reaches out of the window.
const widest = `[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + '.' + e.className).slice(0, 5).join(', ')`

// rows is an expression: the rows of a table by its caption and the text of a row.
func rows(caption, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('table')].filter(t => t.caption && t.caption.textContent === %q)
		.flatMap(t => [...t.tBodies[0].rows]).filter(r => r.textContent.includes(%q))`, caption, text)
}

func TestPage(t *testing.T) {
	b := open(t)
	p := startPlant(t)
	b.look(looks[0])

	// The token: nothing is shown without it.
	b.do(chromedp.Navigate(p.page))
	b.wait("the page asks for the token", `document.querySelector('dialog[open] input[type=password]')`)
	b.do(chromedp.SendKeys(`dialog input[type=password]`, token), chromedp.SendKeys(`dialog input[type=password]`, kb.Enter))

	// What has happened before: one fault that goes on, one that is over.
	b.wait("the fault that goes on is listed as open", rows("Open anomalies", machines[1])+".length")
	b.wait("the fault that is over is listed as closed", rows("Closed anomalies", machines[0])+".length")
	// Several requests are under way when the page asks for the token, and the last of their refusals may
	// be logged after the token was sent.
	b.forgive("401 (Unauthorized)")
	b.picture("anomalies")

	planted(b, p)
	filtered(b)
	series(b)
	muted(b, p)
	keyboard(b)
	shadow(b)

	b.do(chromedp.Evaluate(`location.hash = '#/records'`, nil))
	b.wait("the last records are listed", rows("Records", "temperature=")+`.length > 10 && `+rows("Records", "")+`.every(r => r.cells[1].textContent === 'read')`)
	b.looked("records", "")
	b.do(chromedp.Evaluate(`{ const e = document.querySelector('form.filters [name=limit]'); e.value = '50'; e.dispatchEvent(new Event('change', {bubbles: true})) }`, nil))
	b.wait("more records are listed", rows("Records", "")+`.length > 40`)

	b.do(chromedp.Evaluate(`location.hash = '#/worker'`, nil))
	b.wait("the partitions are listed", rows("Partitions of this worker", topic+"/0")+".length && "+rows("Partitions of this worker", topic+"/1")+".length")
	b.wait("the outcomes are listed", rows("Records since the start", "scored")+".length")
	b.picture("worker")

	if text := b.text(`document.getElementById('alerts').textContent`); text != "" {
		t.Errorf("the page has an alert: %s", text)
	}

	// A dead letter shows, on every page.
	if _, err := p.cluster.ProduceAcked(t.Context(), []kafkatest.Record{{Topic: topic, Partition: 0, Value: []byte("no JSON")}, {Topic: topic, Partition: 1, Value: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	b.wait("dead letters are in the summary", `document.getElementById('summary').textContent.includes('dead 2')`)

	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) > 0 {
		t.Errorf("the console has had errors:\n%s", strings.Join(b.faults, "\n"))
	}
}

// planted: a fault is on the page soon after its first sample was written. A loaded machine may be slow once.
func planted(b *browser, p *plant) {
	const soon = 5 * time.Second
	var took []time.Duration
	for _, machine := range []string{machines[2], machines[3], machines[4]} {
		b.wait("no fault of "+machine+" yet", "!"+rows("Open anomalies", machine)+".length")
		p.set(machine, true)
		began := time.Now()
		b.wait("the planted fault is on the page", rows("Open anomalies", machine)+".length")
		took = append(took, time.Since(began).Round(time.Millisecond))
		if took[len(took)-1] <= soon {
			b.t.Logf("a planted fault is on the page after %v", took)
			return
		}
	}
	b.t.Errorf("planted faults are on the page after %v, want one within %v", took, soon)
}

// filtered: filters leave what matches, and rows sort.
func filtered(b *browser) {
	set := func(name, value string) {
		b.do(chromedp.Evaluate(fmt.Sprintf(`{ const e = document.querySelector('form.filters [name=%s]'); e.value = %q; e.dispatchEvent(new Event('input', {bubbles: true})) }`, name, value), nil))
	}
	set("series", machines[0])
	b.wait("only the series is left", "!"+rows("Open anomalies", "")+".length && "+rows("Closed anomalies", machines[0])+".length")
	set("series", "p*-3")
	b.wait("a pattern finds the series", rows("Open anomalies", machines[2])+".length && !"+rows("Closed anomalies", machines[0])+".length")
	set("series", "")
	set("detector", "shape")
	b.wait("only the detector is left", "!"+rows("Open anomalies", "level")+".length")
	set("detector", "")
	set("state", "closed")
	b.wait("only closed ones are left", rows("Closed anomalies", machines[0])+".length && document.getElementById('open-head').hidden")
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('form.filters button')].find(b => b.textContent === 'Clear').click()`, nil))
	b.wait("all are back", rows("Open anomalies", machines[1])+".length")
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('th button')].find(b => b.textContent === 'Severity').click()`, nil))
	b.wait("the order is told", `document.querySelector('th[aria-sort=descending]')`)
	b.wait("rows are in order", `(list => list.every((v, i) => i === 0 || list[i-1] >= v))([...document.querySelectorAll('table')][0].tBodies[0].querySelectorAll('.badge').values().map(e => parseInt(e.textContent)).toArray())`)
}

// series: values, scores and spans of a series are drawn, zoom works, and a name with markup is text.
func series(b *browser) {
	b.do(chromedp.Evaluate(rows("Closed anomalies", machines[0])+`[0].querySelector('a').click()`, nil))
	b.wait("the charts are there", `document.querySelectorAll('.chart canvas').length >= 3`)
	if title := b.text(`document.querySelector('h1').textContent`); title != machines[0] {
		b.t.Errorf("the page is of %q", title)
	}
	for name, variable := range map[string]string{"the values": "--values", "an expected value": "--expected"} {
		b.wait(name+" are drawn", drawn(0, variable))
	}
	b.wait("the span of the anomaly is drawn", `(() => {
		const c = document.querySelector('.chart canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		let red = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 20 && d[i + 3] < 60 && d[i] > d[i + 2] + 60) red++;
		return red > 300;
	})()`)
	b.wait("a threshold is drawn", drawn(1, "--threshold"))
	if b.text(`document.getElementById('backtest').hidden`) != "true" {
		b.t.Error("another sensitivity is offered, without a preset")
	}
	b.picture("series")
	before := b.text(`document.querySelector('.u-axis') && document.querySelector('.chart canvas').toDataURL().length`)
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('.toolbar button')].find(b => b.textContent === 'Anomaly').click()`, nil))
	b.wait("the time axis is another", fmt.Sprintf(`document.querySelector('.chart canvas').toDataURL().length !== %s`, before))
	b.looked("a series, zoomed", "")
	b.do(chromedp.Evaluate(fmt.Sprintf(`location.hash = '#/series?key=' + encodeURIComponent(%q)`, machines[5]), nil))
	b.wait("a series without anomalies is drawn", `document.querySelectorAll('.chart canvas').length >= 3 && document.querySelector('h1').textContent === `+fmt.Sprintf("%q", machines[5]))
	if b.text(`document.querySelectorAll('h1 b').length`) != "0" {
		b.t.Error("a series name is taken for markup")
	}
	b.do(chromedp.Evaluate(`location.hash = '#/'`, nil))
	b.wait("the anomalies are back", rows("Open anomalies", machines[1])+".length")
}

// drawn is an expression: the nth chart has pixels of the colour of a variable.
func drawn(chart int, variable string) string {
	return fmt.Sprintf(`(() => {
		const probe = document.createElement('canvas').getContext('2d');
		probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(%q).trim();
		probe.fillRect(0, 0, 1, 1);
		const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
		const c = document.querySelectorAll('.chart canvas')[%d], d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		let n = 0;
		for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 150 && Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 40) n++;
		return n > 20;
	})()`, variable, chart)
}

// lasting is an expression: the row of an anomaly that stays open for the whole test. One of shape closes meanwhile.
var lasting = rows("Open anomalies", machines[1]) + `.find(r => r.textContent.includes('level'))`

// muted: a mute of the dialog is a rule of the topic, shown on the page, and can be removed; so can a label.
func muted(b *browser, p *plant) {
	b.do(chromedp.Evaluate(lasting+`.querySelector('button.id').click()`, nil))
	b.wait("the dialog is open", `document.querySelector('dialog[open] form')`)
	b.do(chromedp.SetValue(`dialog [name=reason]`, "bearing is being changed"), chromedp.SetValue(`dialog [name=author]`, "a test"))
	b.picture("anomaly")
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('dialog button')].find(b => b.textContent === 'Mute').click()`, nil))
	b.wait("the mute is confirmed", `document.querySelector('dialog .good')?.textContent.startsWith('Muted')`)
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('dialog button')].find(b => b.textContent === 'False alarm').click()`, nil))
	b.wait("the label is confirmed", `document.querySelector('dialog .good')?.textContent.startsWith('Labelled')`)
	b.do(chromedp.SendKeys(`dialog`, kb.Escape))
	b.wait("the dialog is closed", `!document.querySelector('dialog[open]')`)
	b.wait("the row says both", rows("Open anomalies", machines[1])+`.some(r => r.textContent.includes('muted') && r.textContent.includes('false alarm'))`)
	if text := p.get(b.t, "feedback"); !strings.Contains(text, "bearing is being changed") || !strings.Contains(text, `"false_alarm"`) {
		b.t.Errorf("the feedback topic has %s", text)
	}
	b.do(chromedp.Evaluate(`location.hash = '#/feedback'`, nil))
	b.wait("both are listed", rows("What operators have said", "")+".length === 2")
	b.looked("feedback", "")
	for left := 1; left >= 0; left-- {
		b.do(chromedp.Evaluate(rows("What operators have said", "")+`[0].querySelector('button').click()`, nil))
		b.wait("it is removed", rows("What operators have said", "")+fmt.Sprintf(".length === %d", left))
	}
	b.do(chromedp.Evaluate(`location.hash = '#/'`, nil))
	b.wait("the anomalies are back", rows("Open anomalies", machines[1])+".length")
}

// shadow: the way to the comparison is there where a detector is in shadow mode, whose anomalies are on no other page.
func shadow(b *browser) {
	b.wait("the link is there", `!document.getElementById('shadow-link').hidden`)
	if n := b.text(rows("Open anomalies", "trial") + ".length + " + rows("Closed anomalies", "trial") + ".length"); n != "0" {
		b.t.Errorf("%s anomalies in shadow mode among the others", n)
	}
	b.do(chromedp.Evaluate(`document.getElementById('shadow-link').click()`, nil))
	const caption = "Detectors in shadow mode beside the others"
	b.wait("each of the others is beside it", rows(caption, "level")+".length === 1 && "+rows(caption, "shape")+".length === 1")
	b.wait("what both have found is counted", rows(caption, "all others")+`.some(r => r.cells[0].textContent === 'trial' &&
		+r.cells[1].textContent > 0 && +r.cells[6].textContent > 0 && +r.cells[6].textContent + +r.cells[7].textContent === +r.cells[1].textContent)`)
	const anomalies = "Anomalies in shadow mode"
	b.wait("its anomalies are listed", rows(anomalies, "")+".length > 0 && "+rows(anomalies, "")+`.every(r => r.cells[4].textContent === 'trial' &&
		['open', 'closed'].includes(r.cells[1].textContent))`)
	b.looked("shadow mode", "")
	b.do(chromedp.Evaluate(rows(anomalies, "")+"[0].querySelector('a').click()", nil))
	b.wait("an anomaly in shadow mode has a series", `location.hash.startsWith('#/series?') && document.querySelectorAll('canvas').length > 0`)
	b.do(chromedp.Evaluate(`location.hash = '#/shadow'`, nil))
	b.wait("the comparison is back", rows(caption, "all others")+".length > 0")
	b.do(chromedp.Evaluate(`{ const e = document.querySelector('form.filters [name=from]'); e.value = '2100-01-01T00:00:00'; e.dispatchEvent(new Event('input', {bubbles: true})) }`, nil))
	b.wait("nothing has opened in a range to come", rows(caption, "all others")+`.every(r => r.cells[1].textContent === '0' && r.cells[4].textContent === '0')`)
	b.do(chromedp.Evaluate(`location.hash = '#/'`, nil))
	b.wait("the anomalies are back", rows("Open anomalies", machines[1])+".length")
}

// keyboard: everything that can be clicked can be reached, the dialog returns the focus, and a refresh leaves it.
func keyboard(b *browser) {
	if n := b.text(`[...document.querySelectorAll('[onclick], .clickable')].length`); n != "0" {
		b.t.Errorf("%s elements are no buttons and no links", n)
	}
	if names := b.text(`[...document.querySelectorAll('main button, main a, main input, main select')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label'))).length`); names != "0" {
		b.t.Errorf("%s controls have no name", names)
	}
	b.do(chromedp.Evaluate(lasting+`.querySelector('button.id').focus()`, nil))
	b.do(chromedp.KeyEvent(kb.Enter))
	b.wait("Enter opens the dialog", `document.querySelector('dialog[open]') && document.querySelector('dialog').contains(document.activeElement)`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.wait("the focus is back", `document.activeElement.matches('button.id')`)
	b.do(chromedp.Evaluate(`performance.clearResourceTimings()`, nil))
	b.wait("the page is refreshed", `performance.getEntriesByType('resource').filter(e => e.name.includes('/anomalies')).length >= 2`)
	b.wait("a refresh leaves the focus", `document.activeElement.matches('button.id')`)
}
