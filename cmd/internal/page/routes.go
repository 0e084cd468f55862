package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// static is the page: HTML, its script and style, and the library that draws.
//
//go:embed static
var static embed.FS

// pageFiles are the files of the page by path, with their content types.
var pageFiles = map[string][2]string{
	"/{$}":           {"index.html", "text/html; charset=utf-8"},
	"/app.js":        {"app.js", "text/javascript; charset=utf-8"},
	"/chart.js":      {"chart.js", "text/javascript; charset=utf-8"},
	"/grids.js":      {"grids.js", "text/javascript; charset=utf-8"},
	"/worker.js":     {"worker.js", "text/javascript; charset=utf-8"},
	"/records.js":    {"records.js", "text/javascript; charset=utf-8"},
	"/shadow.js":     {"shadow.js", "text/javascript; charset=utf-8"},
	"/backtest.js":   {"backtest.js", "text/javascript; charset=utf-8"},
	"/app.css":       {"app.css", "text/css; charset=utf-8"},
	"/uplot.min.js":  {"uplot.min.js", "text/javascript; charset=utf-8"},
	"/uplot.min.css": {"uplot.min.css", "text/css; charset=utf-8"},
}

// parameter is a parameter of a route.
type parameter struct{ name, doc, schema string }

// route is one operation of the JSON API. The documentation is made of these rows (openapi.go).
type route struct {
	method, path, summary string
	parameters            []parameter
	body, result          any  // zero values of the types
	write                 bool // changes something
	group                 bool // answered by the Explorer
	answer                func(src *Source, e DataSource, r *http.Request, q *queryReader) (any, error)
}

const (
	textSchema = `{"type":"string"}`
	timeSchema = `{"type":"string","format":"date-time"}`

	partitionSchema = `{"type":"integer","minimum":0}`
)

func intSchema(usual, low, high int) string {
	return fmt.Sprintf(`{"type":"integer","default":%d,"minimum":%d,"maximum":%d}`, usual, low, high)
}

var routes = []route{
	{method: "GET", path: "/status.json", summary: "This worker: partitions, rates, outcomes of records, detectors, the last faults.",
		result: Status{},
		answer: func(src *Source, _ DataSource, _ *http.Request, _ *queryReader) (any, error) {
			return src.Status(), nil
		}},
	{method: "GET", path: "/partitions", summary: "The partitions of this worker.", result: PartitionList{},
		answer: func(src *Source, _ DataSource, _ *http.Request, _ *queryReader) (any, error) {
			s := src.Status()
			return PartitionList{s.Instance, s.State, append([]Partition{}, s.Partitions...)}, nil
		}},
	{method: "GET", path: "/anomalies", group: true,
		summary: "The anomalies of the group: the last 4,096 or fewer, open ones first.", result: AnomalyList{},
		parameters: []parameter{
			{"state", "Only anomalies in this state.", `{"type":"string","enum":["open","closed"]}`},
			{"series", "Only series that match: * stands for any text and ? for one byte. Without either, part of the key.", textSchema},
			{"topic", "Only series of this input topic.", textSchema},
			{"partition", "Only series of this partition of the input topic.", partitionSchema},
			{"detector", "Only this detector.", textSchema},
			{"min_severity", "Least severity.", intSchema(0, 0, 100)},
			{"from", "Only anomalies that go on at this event time, or begin later.", timeSchema},
			{"to", "Only anomalies that begin before this event time.", timeSchema},
			{"limit", "Most anomalies to list.", intSchema(usualAnomalies, 1, mostAnomaliesAnswered)},
		},
		answer: func(_ *Source, e DataSource, _ *http.Request, q *queryReader) (any, error) {
			query := AnomalyQuery{State: q.oneOf("state", "open", "closed"), Series: q.text("series"), Topic: q.text("topic"),
				Partition: q.partition("partition"), Detector: q.text("detector"),
				MinSeverity: q.number("min_severity", 0, 0, 100), From: q.time("from"), To: q.time("to"),
				Limit: q.number("limit", usualAnomalies, 1, mostAnomaliesAnswered)}
			if len(q.faults) > 0 {
				return nil, nil
			}
			return e.Anomalies(&query), nil
		}},
	{method: "GET", path: "/anomalies/{id}", group: true, summary: "One anomaly.", result: Anomaly{},
		answer: func(_ *Source, e DataSource, r *http.Request, _ *queryReader) (any, error) {
			return e.Anomaly(r.PathValue("id"))
		}},
	{method: "GET", path: "/shadow", group: true, result: ShadowList{},
		summary: "The detectors in shadow mode beside the others: how many anomalies each has opened, and which of them both have found; and " +
			"the anomalies in shadow mode.",
		parameters: []parameter{
			{"from", "Only anomalies that opened at this event time or later; by default a day before to.", timeSchema},
			{"to", "Only anomalies that opened before this event time; by default the latest that is known.", timeSchema},
			{"limit", "Most anomalies to list.", intSchema(usualAnomalies, 1, mostAnomaliesAnswered)},
		},
		answer: func(src *Source, e DataSource, _ *http.Request, q *queryReader) (any, error) {
			query := ShadowQuery{From: q.time("from"), To: q.time("to"), Held: held(src.Status()),
				Limit: q.number("limit", usualAnomalies, 1, mostAnomaliesAnswered)}
			if len(q.faults) > 0 {
				return nil, nil
			}
			return e.Shadow(&query), nil
		}},
	{method: "GET", path: "/series", group: true, result: Series{},
		summary: "Values and scores of a series around an anomaly, or the newest ones. They are read from the input topic and the scores " +
			"topic, 64 MiB at most.",
		parameters: []parameter{
			{"key", "Series key. Required.", textSchema},
			{"topic", "Input topic of the series: one key may be in several. By default the one of anomaly, else of the newest anomaly or score.",
				textSchema},
			{"partition", "Partition of the input topic, by default as for topic.", partitionSchema},
			{"anomaly", "Id of the anomaly to read around; by default the newest of the series, and without one the end of the topic.", textSchema},
			{"samples", "Most samples before and after.", intSchema(usualSamples, 1, mostSamples)},
		},
		answer: func(_ *Source, e DataSource, r *http.Request, q *queryReader) (any, error) {
			query := SeriesQuery{Key: q.text("key"), Topic: q.text("topic"), Partition: q.partition("partition"), Anomaly: q.text("anomaly"),
				Samples: q.number("samples", usualSamples, 1, mostSamples)}
			if query.Key == "" {
				q.wrong("key", "name the series")
			}
			if len(q.faults) > 0 {
				return nil, nil
			}
			ctx, cancel := context.WithTimeout(r.Context(), seriesTimeout)
			defer cancel()
			return e.Series(ctx, &query)
		}},
	{method: "GET", path: "/backtest", group: true, result: Backtest{},
		summary: "What the preset finds in a series with the settings in force, and what it would find with another sensitivity, on the " +
			"newest records that the topic has: 1,000,000, 64 MiB or 20 s at most. One runs at a time in a worker. Mutes and labels are not " +
			"applied, and the first samples only warm up.",
		parameters: []parameter{
			{"key", "Series key. Required.", textSchema},
			{"sensitivity", "The other sensitivity. Required.", `{"type":"string","enum":["low","normal","high"]}`},
			{"topic", "Topic of the series. By default, or without partition, the one of its newest anomaly or score.", textSchema},
			{"partition", "Partition of the topic.", partitionSchema},
			{"samples", "About the most samples of the series: the newest.", intSchema(usualBacktest, leastBacktest, mostBacktest)},
		},
		answer: func(_ *Source, e DataSource, r *http.Request, q *queryReader) (any, error) {
			query := BacktestQuery{Key: q.text("key"), Topic: q.text("topic"), Partition: q.partition("partition"),
				Sensitivity: q.oneOf("sensitivity", "low", "normal", "high"),
				Samples:     q.number("samples", usualBacktest, leastBacktest, mostBacktest)}
			if query.Key == "" {
				q.wrong("key", "name the series")
			}
			if query.Sensitivity == "" {
				q.wrong("sensitivity", "use low, normal or high")
			}
			if len(q.faults) > 0 {
				return nil, nil
			}
			ctx, cancel := context.WithTimeout(r.Context(), backtestTimeout)
			defer cancel()
			return e.Backtest(ctx, &query)
		}},
	{method: "GET", path: "/records", result: RecordList{},
		summary: "The last records of an input topic, as worker try shows them: what the worker's settings read of each, or why it is left out.",
		parameters: []parameter{
			{"topic", "Input topic; by default the first.", textSchema},
			{"limit", "Most records to list; fewer if they have more than 32 MiB.", intSchema(usualRead, 1, mostRead)},
		},
		answer: func(src *Source, _ DataSource, r *http.Request, q *queryReader) (any, error) {
			topic, limit := q.text("topic"), q.number("limit", usualRead, 1, mostRead)
			if len(q.faults) > 0 {
				return nil, nil
			}
			var read RecordReader
			if src.Records != nil {
				read = src.Records()
			}
			if read == nil {
				return nil, errors.New("page: the worker has not reached the brokers yet")
			}
			ctx, cancel := context.WithTimeout(r.Context(), seriesTimeout)
			defer cancel()
			return read(ctx, topic, limit)
		}},
	{method: "GET", path: "/blocks", group: true, result: Blocks{},
		summary: "The heatmap or the grid of an anomaly's detector. A heatmap is read from the blocks topic, 16 MiB at most.",
		parameters: []parameter{
			{"anomaly", "Id of the anomaly. Required.", textSchema},
		},
		answer: func(_ *Source, e DataSource, r *http.Request, q *queryReader) (any, error) {
			id := q.text("anomaly")
			if id == "" {
				q.wrong("anomaly", "name the anomaly by its id")
				return nil, nil
			}
			ctx, cancel := context.WithTimeout(r.Context(), seriesTimeout)
			defer cancel()
			return e.Blocks(ctx, id)
		}},
	{method: "GET", path: "/feedback", group: true, summary: "The labels that operators gave anomalies, and the mute rules: the last 10,000 " +
		"or fewer, newest first.",
		result:     FeedbackList{},
		parameters: []parameter{{"limit", "Most records to list.", intSchema(usualAnomalies, 1, mostAnomaliesAnswered)}},
		answer: func(src *Source, e DataSource, _ *http.Request, q *queryReader) (any, error) {
			limit := q.number("limit", usualAnomalies, 1, mostAnomaliesAnswered)
			if len(q.faults) > 0 {
				return nil, nil
			}
			list := e.Feedback()
			list.Total = len(list.Feedback)
			list.Feedback = list.Feedback[:min(limit, list.Total)]
			list.Writable = list.Topic != "" && src.Access.Writable()
			return list, nil
		}},
	{method: "POST", path: "/feedback", group: true, write: true, body: Feedback{}, result: Feedback{},
		summary: "Mutes some scores, or says of an anomaly whether it was a fault. Written to the feedback topic; the workers apply it " +
			"within seconds.",
		answer: func(_ *Source, e DataSource, r *http.Request, _ *queryReader) (any, error) {
			var f Feedback
			dec := json.NewDecoder(io.LimitReader(r.Body, mostBody))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&f); err != nil {
				return nil, &Error{http.StatusBadRequest, "page: the body is no feedback: " + err.Error()}
			}
			ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
			defer cancel()
			return e.WriteFeedback(ctx, &f)
		}},
	{method: "DELETE", path: "/feedback", group: true, write: true, result: Removed{},
		summary:    "Removes a mute rule, or the label of an anomaly.",
		parameters: []parameter{{"id", "Id of the record. Required.", textSchema}},
		answer: func(_ *Source, e DataSource, r *http.Request, q *queryReader) (any, error) {
			id := q.text("id")
			if id == "" {
				q.wrong("id", "name the record")
				return nil, nil
			}
			ctx, cancel := context.WithTimeout(r.Context(), writeTimeout)
			defer cancel()
			return Removed{id}, e.RemoveFeedback(ctx, id)
		}},
}

// Removed names the record of feedback that was removed.
type Removed struct {
	ID string `json:"id" doc:"Id of the record that is removed."`
}

// How long a request waits for brokers.
const (
	seriesTimeout = 30 * time.Second
	writeTimeout  = 20 * time.Second
	loadTimeout   = 5 * time.Second // then the answer says that topics are being read
)

// policy forbids the page to load anything from elsewhere, and others to frame it. uPlot sets styles of its elements.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler answers
//
//	/              the page
//	/openapi.json  the description of the JSON API: the rows of routes
//	/healthz       200, or 503 with the reason where the worker makes no progress: restart it
//	/readyz        200 while the worker does its work, else 503 with the reason
//	/metrics       Prometheus
func Handler(src Source) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", Probes(src))
	for path, file := range pageFiles {
		content, err := static.ReadFile("static/" + file[0])
		if err != nil {
			panic(err) // it is embedded
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", file[1])
			h.Set("Content-Security-Policy", policy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("Cache-Control", "no-cache")
			_, _ = w.Write(content) // the reader may be gone
		})
	}
	document := OpenAPI()
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})
	cross := http.NewCrossOriginProtection() // a page of another origin writes nothing, regardless of the browser's certificates
	for i := range routes {
		route := &routes[i]
		mux.Handle(route.method+" "+route.path, cross.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v, err := route.serve(&src, r)
			answerJSON(w, v, err)
		})))
	}
	return mux
}

// serve answers a request of the route.
func (rt *route) serve(src *Source, r *http.Request) (any, error) {
	if err := src.Access.check(r, rt.write); err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(r.URL.RawQuery) // not the form: a body that curl -d sends is JSON, regardless of its content type
	if err != nil {
		return nil, &Error{http.StatusBadRequest, "page: the query cannot be read: " + err.Error()}
	}
	q := &queryReader{query: query}
	for name, values := range query {
		switch {
		case !slices.ContainsFunc(rt.parameters, func(p parameter) bool { return p.name == name }):
			q.wrong(name, "no such parameter; /openapi.json lists them")
		case len(values) > 1:
			q.wrong(name, "given more than once")
		}
	}
	var e DataSource
	if rt.group {
		if e = src.Explorer(); e == nil {
			return nil, errors.New("page: the worker has not reached the brokers yet")
		}
	}
	if len(q.faults) > 0 {
		return nil, q.err()
	}
	if rt.group && !rt.write {
		ctx, cancel := context.WithTimeout(r.Context(), loadTimeout)
		e.Await(ctx)
		cancel()
	}
	v, err := rt.answer(src, e, r, q)
	if len(q.faults) > 0 {
		return nil, q.err()
	}
	return v, err
}

// err returns what is wrong with the parameters, in the order of their names.
func (q *queryReader) err() error {
	slices.Sort(q.faults)
	return &Error{http.StatusBadRequest, "page: " + strings.Join(q.faults, "; ")}
}
