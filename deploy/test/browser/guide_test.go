package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"odradek/processor/kafkatest"
)

// guide are the kinds of faults that `worker generate` plants, each with the member of the default preset's any whose scores
// the picture of docs/detectors.md shows.
var guide = [][2]string{{"spike", "shape"}, {"level_shift", "near"}, {"drift", "near"}, {"frequency", "shape"}, {"stuck", "flat"}}

// TestGuidePictures takes the pictures of docs/detectors.md: of each kind of fault, values and scores of the anomaly with the
// highest severity. It does nothing without -pictures.
func TestGuidePictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("pictures are taken where -pictures names a folder")
	}
	b := open(t)
	worker := buildWorker(t)
	cluster, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	p := &plant{cluster: cluster, log: new(bytes.Buffer)}
	for i, g := range guide {
		cmd := exec.Command(worker, "generate", "-topic", topic, "-partitions", "2", "-replication", "1", "-format", "json", "-plant", g[0], "-faults", g[0],
			"-sensors", "3", "-records", "6900", "-fault-every", "400", "-seed", fmt.Sprint(i+1))
		cmd.Env = p.environment()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	p.runWorker(t, worker, "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=site.plant+sensor", "ODRADEK_TIME_FIELD=time", "ODRADEK_VALUE_FIELDS=value")
	b.look(look{"guide", 940, 900, "light"})
	b.do(chromedp.Navigate(p.page))
	b.wait("the page asks for the token", `document.querySelector('dialog[open] input[type=password]')`)
	b.do(chromedp.SendKeys(`dialog input[type=password]`, token+"\r"))
	b.wait("anomalies are listed", rows("Closed anomalies", guide[0][0])+".length")
	for _, g := range guide {
		var list struct {
			Anomalies []struct {
				ID, Series string
				Severity   int
			}
		}
		if err := json.Unmarshal([]byte(p.get(t, "anomalies?limit=2000&series="+url.QueryEscape(g[0]+"/*")+"&detector=any")), &list); err != nil {
			t.Fatal(err)
		}
		best := -1
		for i, a := range list.Anomalies {
			if best < 0 || a.Severity > list.Anomalies[best].Severity {
				best = i
			}
		}
		if best < 0 {
			t.Errorf("%s has found no %s", g[1], g[0])
			continue
		}
		a := list.Anomalies[best]
		b.do(chromedp.Evaluate(fmt.Sprintf(`location.hash = '#/series?' + new URLSearchParams({key: %q, anomaly: %q, samples: 260})`, a.Series, a.ID), nil))
		b.wait("the charts are there", fmt.Sprintf(`document.querySelector('h1').textContent === %q && document.querySelectorAll('.chart canvas').length > 2`, a.Series))
		// The values, and the scores of the detector alone.
		b.do(chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll('.chart')].slice(1).filter(c => !c.textContent.startsWith(%q)).forEach(c => c.remove())`, g[1]), nil))
		var png []byte
		b.do(chromedp.Evaluate(settled, nil), chromedp.Screenshot("#charts", &png, chromedp.ByQuery))
		if err := os.WriteFile(filepath.Join(*pictures, "guide-"+g[0]+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
