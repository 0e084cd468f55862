package browser

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// recordText has canvases keep the boxes of the texts that were drawn on them, until they are cleared or get another size.
// A canvas has no elements that tell whether its text can be read.
const recordText = `(() => {
	const proto = CanvasRenderingContext2D.prototype, draw = proto.fillText, clear = proto.clearRect;
	proto.fillText = function (text, x, y, ...rest) {
		draw.call(this, text, x, y, ...rest);
		const m = this.measureText(text), t = this.getTransform(), xs = [], ys = [];
		for (const px of [x - m.actualBoundingBoxLeft, x + m.actualBoundingBoxRight])
			for (const py of [y - m.actualBoundingBoxAscent, y + m.actualBoundingBoxDescent]) {
				const p = t.transformPoint({ x: px, y: py });
				xs.push(p.x);
				ys.push(p.y);
			}
		(this.canvas.texts ??= []).push({ text: String(text), left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) });
	};
	proto.clearRect = function (x, y, w, h) {
		clear.call(this, x, y, w, h);
		if (x <= 0 && y <= 0 && w >= this.canvas.width && h >= this.canvas.height) this.canvas.texts = [];
	};
	for (const side of ["width", "height"]) {
		const of = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, side);
		Object.defineProperty(HTMLCanvasElement.prototype, side, { ...of, set(v) { this.texts = []; of.set.call(this, v); } });
	}
})()`

// cutLabels lists the labels of charts that cannot be read whole: text on a canvas that reaches out of it or into another
// text, equal labels of different values, text of elements that reaches out of its chart or of a box that hides what does,
// and text of an SVG that lies outside of it.
const cutLabels = `(() => {
	const out = [];
	for (const canvas of document.querySelectorAll('.chart canvas')) {
		if (!canvas.checkVisibility()) continue;
		const texts = (canvas.texts || []).filter(t => t.text.trim());
		if (!texts.length) out.push('a canvas of ' + canvas.width + ' x ' + canvas.height + ' without text');
		texts.forEach((t, i) => {
			if (t.left < -0.5 || t.top < -0.5 || t.right > canvas.width + 0.5 || t.bottom > canvas.height + 0.5)
				out.push(JSON.stringify(t.text) + ' at x ' + Math.round(t.left) + ' to ' + Math.round(t.right) + ', y ' + Math.round(t.top) + ' to ' + Math.round(t.bottom) +
					' of ' + canvas.width + ' x ' + canvas.height);
			for (const u of texts.slice(i + 1))
				if (t.left < u.right && u.left < t.right && t.top < u.bottom && u.top < t.bottom) out.push(JSON.stringify(t.text) + ' and ' + JSON.stringify(u.text) + ' overlap');
		});
		const axis = texts.filter(t => canvas.closest('.uplot') && /^[-+.\de]+$/.test(t.text)).map(t => t.text);
		if (new Set(axis).size < axis.length) out.push('equal labels of an axis: ' + axis.join(' '));
	}
	for (const chart of document.querySelectorAll('.chart')) {
		if (!chart.checkVisibility()) continue;
		const walk = document.createTreeWalker(chart, NodeFilter.SHOW_TEXT), range = document.createRange();
		for (let node = walk.nextNode(); node; node = walk.nextNode()) {
			if (!node.data.trim() || !node.parentElement.checkVisibility() || node.parentElement.closest('.sr')) continue;
			range.selectNodeContents(node);
			const boxes = [chart];
			for (let e = node.parentElement; e !== chart; e = e.parentElement)
				if (e instanceof SVGSVGElement || ['hidden', 'clip'].includes(getComputedStyle(e).overflowX)) boxes.push(e);
			const scrolls = node.parentElement.closest('.wide'); // can be read by scrolling
			for (const r of range.getClientRects())
				for (const box of boxes) {
					const b = box.getBoundingClientRect();
					if (!scrolls && (r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 1 || r.bottom > b.bottom + 1))
						out.push(JSON.stringify(node.data) + ' reaches out of ' + box.tagName + '.' + box.getAttribute('class'));
				}
		}
	}
	return [...new Set(out)].slice(0, 8).join('\n');
})()`

// readable fails the test where a label of a chart is cut.
func (b *browser) readable(what string) {
	b.t.Helper()
	cut := b.text(cutLabels)
	for began := time.Now(); cut != "" && time.Since(began) < 10*time.Second; cut = b.text(cutLabels) {
		b.do(chromedp.Evaluate(settled, nil, awaited)) // on a busy machine a chart is drawn late
	}
	if cut != "" {
		b.t.Errorf("%s: labels that cannot be read:\n%s", what, cut)
	}
}

// TestChartLabels: labels of charts can be read whole, for values of every size, spans from milliseconds to years, and long names.
func TestChartLabels(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(repository + "/cmd/internal/page/static")))
	t.Cleanup(server.Close)
	b := open(t)
	b.do(chromedp.Navigate(server.URL))
	b.wait("the programs of the page are there", `typeof Charts === 'object' && typeof Grids === 'object'`)
	b.do(chromedp.Evaluate(`document.body.innerHTML = '<main><div id="charts"></div><div id="cells"></div></main>'; var drawn = null, cells = null`, nil))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	type values struct {
		name          string
		level, spread float64
	}
	for _, v := range []values{{"ordinary", 70, 2}, {"thousands", 220000, 400000}, {"millions", -3.7e7, 5e6}, {"pascal", 101325, 0.05}, {"tiny", 0, 3e-7},
		{"huge", -1.2345e15, 1e3}, {"precise", 1234567.5, 0.01}, {"negative thousandths", -0.0123456, 1e-6}, {"constant", -123456.789, 0}} {
		for _, span := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 5 * time.Minute, 26 * time.Hour, 12 * 24 * time.Hour, 900 * 24 * time.Hour} {
			month := time.Month(1 + rng.IntN(12))
			if span == 26*time.Hour {
				month = time.March // summer time begins on the 29th
			}
			start := time.Date(2026, month, 28, rng.IntN(24), rng.IntN(60), rng.IntN(60), rng.IntN(1e9), time.UTC)
			b.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
				if (drawn) drawn.end();
				if (cells) cells.end();
				for (const id of ['charts', 'cells']) document.getElementById(id).replaceChildren();
				const [level, spread, begin, span, n] = [%g, %g, %d, %d, 200];
				const times = Array.from({ length: n }, (_, i) => begin + Math.round(span * i / n));
				const values = times.map((_, i) => level + spread * Math.sin(i / 7));
				const name = 'line_1.press_2.the_temperature_of_the_hydraulic_oil_before_the_cooler_' + 'x'.repeat(60);
				const none = times.map(() => null);
				drawn = Charts.draw(document.getElementById('charts'), { times, fields: [name], values: [values], usual: [{ low: none, high: none, over: 64 }], anomalies: [],
					scores: [{ detector: 'near', op: 'knn', rule: 'fixed:8', times, scores: values.map(v => Math.abs(v)), threshold: times.map(() => Math.abs(level)) },
						{ detector: 'silent', op: 'knn', rule: 'fixed:8', times, scores: none, threshold: none }] }, 0); // its chart has no axis of values
				const a = { detector: 'hot', peak_time: new Date(begin + span / 2).toISOString(), region: { column_from: 1, column_to: 2, row_from: 0, row_to: 0,
					x0: level, x1: level + spread, y0: level, y1: level + spread, observed: 4000000, expected: level, llr: 12, p: 0.001 } };
				const from = begin, to = begin + span;
				cells = Grids.draw(document.getElementById('cells'), { detector: 'hot', notes: [],
					heatmap: { from, to, min_length: 100000, max_length: 200000, length_step: 50000, columns: 3, cells: [[1, 2, 3], [0, 0, 9], [127, 2, 0]] },
					grid: { columns: 4, rows: 2, x: 'longitude_of_the_place', y: 'latitude_of_the_place', x0: level - spread - 0.00012345, x1: level + spread + 1, y0: level - spread - 0.00012345, y1: level + spread + 1 } }, a);
			})()`, v.level, v.spread, start.UnixMilli(), max(span.Milliseconds(), 1)), nil))
			for _, l := range []look{{"1280", 1280, 900, "light"}, {"390", 390, 844, "light"}} {
				b.look(l)
				b.do(chromedp.Evaluate(settled, nil, awaited))
				what := fmt.Sprintf("%s values over %v from %v at a width of %s", v.name, span, start, l.name)
				b.readable(what)
				b.do(chromedp.Evaluate(fmt.Sprintf(`{ const [min, max] = drawn.scale(); drawn.zoomTo(min + (max - min) * %g, max - (max - min) * %g) }`, 0.45*rng.Float64(), 0.45*rng.Float64()), nil),
					chromedp.Evaluate(settled, nil, awaited))
				b.readable(what + ", zoomed")
				b.do(chromedp.Evaluate(`drawn.reset()`, nil))
			}
		}
	}
}

// watchText has every page keep its text on canvases.
func watchText() chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(recordText).Do(ctx)
		return err
	})
}
