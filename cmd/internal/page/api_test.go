package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

// documentFile is the published copy of the API's description.
const documentFile = "../../../docs/openapi.json"

// group is an Explorer that notes what it is asked.
type group struct {
	asked []any
	err   error

	wait, gone chan struct{} // closed when a backtest has begun, and when its client has gone; nil: it does not wait
}

func (g *group) Await(context.Context) {}

func (g *group) Anomalies(q *AnomalyQuery) AnomalyList {
	g.asked = append(g.asked, *q)
	at := time.Date(2026, 3, 1, 2, 3, 4, 0, time.UTC)
	return AnomalyList{Anomalies: []Anomaly{{ID: "6e", State: "open", Series: "pump<1>", Detector: "near", Start: at,
		PeakScore: Number(math.NaN()),
		Threshold: 1.5, Expected: []Number{Number(math.Inf(1)), 2}, Region: &Region{P: Number(math.NaN())}}}, Detectors: []string{"near"}}
}

func (g *group) Anomaly(id string) (Anomaly, error) {
	g.asked = append(g.asked, id)
	return Anomaly{ID: id}, g.err
}

func (g *group) Shadow(q *ShadowQuery) ShadowList {
	g.asked = append(g.asked, *q)
	return ShadowList{Anomalies: []Anomaly{},
		Detectors: []ShadowDetector{{Detector: "new", PerSeriesDay: Number(math.NaN()), Live: []LiveBeside{{Detector: "near"}}}}}
}

func (g *group) Series(_ context.Context, q *SeriesQuery) (*Series, error) {
	g.asked = append(g.asked, *q)
	none := []Number{}
	return &Series{Key: q.Key, Anchor: &Origin{}, Fields: []string{"value"}, Times: []float64{1}, Values: [][]Number{{2}},
		Usual:  []Band{{Low: none, High: none}},
		Scores: []Scores{{Detector: "near", Threshold: none, Times: []float64{}, Scores: none}}, Anomalies: []Anomaly{}, Notes: []string{}}, g.err
}

func (g *group) Blocks(_ context.Context, id string) (*Blocks, error) {
	g.asked = append(g.asked, id)
	return &Blocks{Anomaly: id, Heatmap: &Heatmap{Cells: [][]int{{0, 255}}}, Grid: &Grid{Columns: 2}, Notes: []string{}}, g.err
}

func (g *group) Backtest(ctx context.Context, q *BacktestQuery) (*Backtest, error) {
	g.asked = append(g.asked, *q)
	if g.wait != nil {
		close(g.wait)
		<-ctx.Done()
		close(g.gone)
	}
	s := BacktestSide{AlarmsPerDay: none, Anomalies: []BacktestAnomaly{{Detector: "near"}}}
	return &Backtest{Key: q.Key, Before: s, After: s, Cut: "x", Fields: []string{"value"}, Times: []float64{1}, Low: [][]Number{{none}},
		High: [][]Number{{2}}, Notes: []string{}}, g.err
}

func (g *group) Feedback() FeedbackList {
	return FeedbackList{Feedback: []Feedback{{ID: "a", Kind: "mute"}}, Topic: "feedback"}
}

func (g *group) WriteFeedback(_ context.Context, f *Feedback) (*Feedback, error) {
	g.asked = append(g.asked, *f)
	return f, g.err
}

func (g *group) RemoveFeedback(_ context.Context, id string) error {
	g.asked = append(g.asked, id)
	return g.err
}

// apiHandler returns a handler with an Explorer behind it.
func apiHandler(access Access) (http.Handler, *group) {
	src, _, _ := testSource()
	g := &group{}
	src.Explorer, src.Access = func() DataSource { return g }, access
	src.Records = func() RecordReader { return someRecords }
	return Handler(src), g
}

func someRecords(context.Context, string, int) (*RecordList, error) {
	samples := []ReadSample{{Series: "a", Outcome: "read", Values: []ReadValue{{"v", 1, Number(math.NaN()), "why"}}}}
	records := []ReadRecord{{Outcome: "read", Samples: samples, Intervals: samples}}
	return &RecordList{Topic: "in", Topics: []string{"in"}, Records: records}, nil
}

func request(h http.Handler, method, target, body string, headers ...string) (code int, answer map[string]any) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "localhost:9465"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	_ = json.Unmarshal(w.Body.Bytes(), &answer)
	return w.Code, answer
}

// TestOpenAPI holds the published description equal to the served one, and every answer of every route to it.
func TestOpenAPI(t *testing.T) {
	served := OpenAPI()
	if *update {
		if err := os.WriteFile(documentFile, served, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if file, err := os.ReadFile(documentFile); err != nil || !bytes.Equal(file, served) {
		t.Errorf("%s is not what the routes say (%v): run go generate ./cmd/internal/page", documentFile, err)
	}
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(served, &doc); err != nil {
		t.Fatal(err)
	}
	for name, s := range doc.Components.Schemas {
		for field, p := range s.Properties {
			if len(strings.Fields(p.Description)) == 0 {
				t.Errorf("%s.%s is not described", name, field)
			}
		}
	}
	h, _ := apiHandler(Access{Token: "secret"})
	operations := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			operations++
			target, query := strings.ReplaceAll(path, "{id}", "6e"), []string{}
			for _, p := range op.Parameters {
				if p.In == "query" {
					query = append(query, p.Name+"="+examples[p.Name])
				}
			}
			code, answer := request(h, strings.ToUpper(method), target+"?"+strings.Join(query, "&"), `{"kind":"mute"}`, "Authorization",
				"Bearer secret")
			if code != 200 {
				t.Errorf("%s %s with all its parameters: %d %v", method, path, code, answer)
				continue
			}
			s := op.Responses["200"].Content["application/json"].Schema
			for _, f := range s.faults(doc.Components.Schemas, answer, path) {
				t.Errorf("%s %s: %s", method, path, f)
			}
			code, answer = request(h, strings.ToUpper(method), target+"?nonsense=1", "", "Authorization", "Bearer secret")
			if code != 400 || len(op.Responses["default"].Content["application/json"].Schema.faults(doc.Components.Schemas, answer, "fault")) > 0 {
				t.Errorf("%s %s with an unknown parameter: %d %v", method, path, code, answer)
			}
		}
	}
	if operations != len(routes) {
		t.Errorf("%d operations are described, there are %d routes", operations, len(routes))
	}
	broken := map[string]any{"id": 1.0}
	ref := schema{Ref: "#/components/schemas/Removed"}
	if f := ref.faults(doc.Components.Schemas, broken, ""); len(f) != 1 {
		t.Errorf("an answer of another type: %q", f)
	}
	if f := ref.faults(doc.Components.Schemas, map[string]any{"name": "x"}, ""); len(f) != 2 {
		t.Errorf("an answer of other fields: %q", f)
	}
}

type operation struct {
	Parameters []struct {
		Name, In string
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema schema }
	}
}

// schema is what the test knows of JSON Schema.
type schema struct {
	Ref         string `json:"$ref"`
	Type        any
	Description string
	Items       *schema
	Properties  map[string]schema
	Required    []string
}

// faults lists where a value differs from the schema.
func (s schema) faults(all map[string]schema, v any, at string) (faults []string) {
	if s.Ref != "" {
		return all[strings.TrimPrefix(s.Ref, "#/components/schemas/")].faults(all, v, at)
	}
	types := []any{s.Type}
	if list, ok := s.Type.([]any); ok {
		types = list
	}
	is := map[string]func() bool{
		"object":  func() bool { _, ok := v.(map[string]any); return ok },
		"array":   func() bool { _, ok := v.([]any); return ok },
		"string":  func() bool { _, ok := v.(string); return ok },
		"boolean": func() bool { _, ok := v.(bool); return ok },
		"number":  func() bool { _, ok := v.(float64); return ok },
		"integer": func() bool { f, ok := v.(float64); return ok && f == math.Trunc(f) },
		"null":    func() bool { return v == nil },
	}
	if !slices.ContainsFunc(types, func(name any) bool { return is[name.(string)]() }) {
		return []string{fmt.Sprintf("%s: %v is no %v", at, v, s.Type)}
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			faults = append(faults, s.Items.faults(all, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				faults = append(faults, at+": lacks "+name)
			}
		}
		for name, item := range v {
			p, ok := s.Properties[name]
			if !ok {
				faults = append(faults, at+": has "+name)
				continue
			}
			faults = append(faults, p.faults(all, item, at+"."+name)...)
		}
	}
	return faults
}

// examples are values of the parameters.
var examples = map[string]string{"state": "open", "series": "pump-*", "detector": "near", "min_severity": "50",
	"from": "2026-03-01T00:00:00Z",
	"to":   "2026-03-02T00:00:00Z", "limit": "10", "key": "pump-1", "anomaly": "6e", "samples": "100", "id": "a",
	"topic": "in", "partition": "0", "sensitivity": "high"}

// TestQueries: parameters reach the Explorer, and each that is wrong is named.
func TestQueries(t *testing.T) {
	h, g := apiHandler(Access{})
	code, answer := request(h, "GET", "/anomalies?state=open&series=pump-*&detector=near&min_severity=50&from=2026-03-01T00:00:00Z&limit=7",
		"")
	want := AnomalyQuery{State: "open", Series: "pump-*", Detector: "near", MinSeverity: 50, From: time.Date(2026, 3, 1, 0, 0, 0, 0,
		time.UTC), Limit: 7}
	if code != 200 || len(g.asked) != 1 || g.asked[0] != want {
		t.Errorf("%d, asked %+v, want %+v", code, g.asked, want)
	}
	if a := answer["anomalies"].([]any)[0].(map[string]any); a["peak_score"] != nil || a["threshold"] != 1.5 || a["series"] != "pump<1>" {
		t.Errorf("answer %v", a)
	}
	request(h, "GET", "/shadow?to=2026-03-02T00:00:00Z", "")
	if q := (ShadowQuery{To: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Limit: usualAnomalies,
		Held: []HeldSeries{{Topic: "in", Partition: 3, Series: 5},
			{Topic: "in", Partition: 5}}}); len(g.asked) != 2 || !reflect.DeepEqual(g.asked[1], q) {
		t.Errorf("asked %+v, want %+v", g.asked, q)
	}
	for _, c := range []struct{ target, want string }{
		{"/shadow?from=noon", "from=\"noon\": use a time"}, {"/shadow?limit=0", "limit"},
		{"/anomalies?state=shut&min_severity=200&limit=0&from=noon", "from=\"noon\": use a time"},
		{"/anomalies?state=shut&min_severity=200", "state=\"shut\": use one of open, closed"},
		{"/anomalies?min_severity=200", "use a whole number from 0 to 100"},
		{"/anomalies?state=open&state=closed", "given more than once"},
		{"/anomalies?severity=3", "no such parameter"},
		{"/feedback?limit=2001", "from 1 to 2000"},
		{"/series", "name the series"},
		{"/blocks", "name the anomaly"},
		{"/series?key=a&samples=0", "from 1 to 20000"},
		{"/series?key=a;b", "cannot be read"},
		{"/backtest?sensitivity=high", "name the series"}, {"/backtest?key=a", "use low, normal or high"},
		{"/backtest?key=a&sensitivity=higher", "use one of low, normal, high"},
		{"/backtest?key=a&sensitivity=low&samples=99", "from 100 to 100000"},
	} {
		if code, answer := request(h, "GET", c.target, ""); code != 400 || !strings.Contains(fmt.Sprint(answer["error"]), c.want) {
			t.Errorf("%s: %d %v, want %q", c.target, code, answer, c.want)
		}
	}
	g.err = &Error{404, "no such anomaly"}
	if code, answer := request(h, "GET", "/anomalies/ab", ""); code != 404 || answer["error"] != "no such anomaly" {
		t.Errorf("%d %v", code, answer)
	}
	g.err = errors.New("no broker answers")
	if code, answer := request(h, "GET", "/series?key=a", ""); code != 503 || answer["error"] != "no broker answers" {
		t.Errorf("%d %v", code, answer)
	}
	src, _, _ := testSource()
	src.Status = func() Status { return Status{} }
	w := httptest.NewRecorder()
	Handler(src).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9465/partitions", nil))
	if want := `{"state":"","partitions":[]}`; strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("no partitions are %s, want %s", w.Body, want)
	}
	src.Explorer = func() DataSource { return nil }
	if code, answer := request(Handler(src), "GET", "/anomalies", ""); code != 503 {
		t.Errorf("before there is an explorer: %d %v", code, answer)
	}
}

// TestAccess: who may read, and who may write.
func TestAccess(t *testing.T) {
	const body = `{"kind":"mute","keys":"pump-1"}`
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	for _, c := range []struct {
		access  Access
		method  string
		headers []string
		want    int
	}{
		{Access{}, "GET", nil, 200},
		{Access{}, "POST", nil, 403},
		{Access{}, "POST", bearer(""), 403},
		{Access{}, "DELETE", nil, 403},
		{Access{Token: "secret"}, "GET", nil, 401},
		{Access{Token: "secret"}, "GET", bearer("secret"), 200},
		{Access{Token: "secret"}, "GET", bearer("secreT"), 401},
		{Access{Token: "secret"}, "GET", []string{"Authorization", "secret"}, 401},
		{Access{Token: "secret"}, "POST", bearer("secret"), 200},
		{Access{Token: "secret"}, "POST", nil, 401},
		{Access{Token: "secret"}, "DELETE", bearer("secret"), 200},
		{Access{Token: "secret"}, "POST", append(bearer("secret"), "Sec-Fetch-Site", "cross-site"), 403},
		{Access{Token: "secret"}, "POST", append(bearer("secret"), "Sec-Fetch-Site", "same-origin"), 200},
		{Access{ClientCertificates: true}, "GET", nil, 401}, // not over TLS
	} {
		h, g := apiHandler(c.access)
		code, answer := request(h, c.method, "/feedback?id=a"[:len("/feedback")+map[string]int{"DELETE": 5}[c.method]], body, c.headers...)
		if code != c.want || (code != 200 && len(g.asked) > 0) {
			t.Errorf("%+v %s %q: %d, want %d (%v)", c.access, c.method, c.headers, code, c.want, answer)
		}
	}
	h, _ := apiHandler(Access{Token: "secret"})
	for _, path := range []string{"/", "/app.js", "/chart.js", "/grids.js", "/worker.js", "/shadow.js", "/records.js", "/backtest.js",
		"/app.css",
		"/uplot.min.js", "/uplot.min.css",
		"/openapi.json", "/healthz"} {
		if code, _ := request(h, "GET", path, ""); code != 200 {
			t.Errorf("%s without a token: %d", path, code)
		}
	}
	for _, body := range []string{"", "no JSON", `{"kind":"mute","key":"a misspelt field"}`, strings.Repeat(" ",
		mostBody) + `{"kind":"mute"}`} {
		if code, answer := request(h, "POST", "/feedback", body, bearer("secret")...); code != 400 {
			t.Errorf("%.40q: %d %v", body, code, answer)
		}
	}
	for _, c := range []struct {
		access Access
		want   bool
	}{{Access{}, false}, {Access{Token: "secret"}, true}} {
		h, _ := apiHandler(c.access)
		if _, answer := request(h, "GET", "/feedback", "", bearer("secret")...); answer["writable"] != c.want {
			t.Errorf("%+v: writable %v", c.access, answer["writable"])
		}
	}
}
