package kafkaconnect

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// The versions that are run. The client of Camel's component is of Elasticsearch 7, whose answers OpenSearch 1 gives.
const (
	opensearchVersion = "1.3.20"
	camelVersion      = "3.11.1"
	camelSinkVersion  = "0.11.0"
)

// opensearch is an OpenSearch server.
type opensearch struct {
	*program
	addr string
}

func startOpenSearch(t *testing.T) *opensearch {
	t.Helper()
	jvm, err := kafkatest.Java()
	if err != nil {
		kafkatest.Missing(t, "kafka", &kafkatest.MissingError{What: "OpenSearch", Err: err})
	}
	files, err := kafkatest.CachedFile(t.Context(), "opensearch-"+opensearchVersion,
		"org.opensearch.distribution.integ-test-zip:opensearch:"+opensearchVersion+":zip", unzip)
	if err != nil {
		kafkatest.Missing(t, "kafka", err)
	}
	dir, as := unprivileged(t)
	home := filepath.Join(dir, "opensearch")
	copyTree(t, filepath.Join(files, "opensearch-"+opensearchVersion), home)
	ports, err := kafkatest.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	o := &opensearch{addr: fmt.Sprintf("127.0.0.1:%d", ports[0])}
	o.program = start(t, "opensearch", as(exec.Command(jvm, "-Xms300m", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Djava.io.tmpdir="+dir, "-Dopensearch.path.home="+home, "-Dopensearch.path.conf="+filepath.Join(home, "config"),
		"-Dopensearch.networkaddress.cache.ttl=60", "-Dlog4j2.disable.jmx=true", "-cp", filepath.Join(home, "lib", "*"),
		"org.opensearch.bootstrap.OpenSearch", "-Ediscovery.type=single-node", fmt.Sprintf("-Ehttp.port=%d", ports[0]),
		fmt.Sprintf("-Etransport.port=%d", ports[1]), "-Enetwork.host=127.0.0.1")))
	o.wait(t, "an answer", func() error { return o.get("/", &struct{}{}) })
	return o
}

// unzip unpacks a zip below dir.
func unzip(name, dir string) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer z.Close()
	return os.CopyFS(dir, z)
}

// get asks for JSON.
func (o *opensearch) get(path string, into any) error {
	res, err := http.Get("http://" + o.addr + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, res.Status, b)
	}
	return json.Unmarshal(b, into)
}

// of names a record of an anomaly.
func of(fields map[string]any) string { return fmt.Sprint(fields["id"], " ", fields["revision"]) }

// documents returns the documents of an index, by the record that they are of.
func (o *opensearch) documents(index string) (map[string]map[string]any, error) {
	var refreshed struct{}
	var found struct {
		Hits struct {
			Hits []struct {
				Source map[string]any `json:"_source"`
			}
		}
	}
	if err := errors.Join(o.get("/"+index+"/_refresh", &refreshed), o.get("/"+index+"/_search?size=10000", &found)); err != nil {
		return nil, err
	}
	all := map[string]map[string]any{}
	for _, h := range found.Hits.Hits {
		all[of(h.Source)] = h.Source
	}
	return all, nil
}

// times are the fields of an anomaly that are times.
var times = []string{"start", "end", "peak_time", "opened_at", "event_time"}

// document returns what the index should have of an anomaly.
func document(fields map[string]any) map[string]any {
	doc := map[string]any{}
	for name, v := range fields {
		if slices.Contains(times, name) {
			v = time.UnixMicro(int64(v.(float64))).UTC().Format("2006-01-02T15:04:05.000Z")
		}
		if n, ok := v.(int64); ok {
			v = float64(n)
		}
		doc[name] = v
	}
	return doc
}

// TestOpenSearch: a worker's anomalies, in JSON, go through Kafka Connect with the converters and transforms of elasticsearch.json and
// Camel's sink into OpenSearch. The index has a document for each record of the topic, whose times are dates, also of those that
// were written while Connect was killed. Camel takes the id of a document from a header, which no transform of Kafka sets
// from a value without a schema: so the documents have ids of their own.
func TestOpenSearch(t *testing.T) {
	kafkatest.LongOnly(t)
	cluster := kafkatest.Open(t, kafkatest.KindNewest)
	p := newPlant(t, cluster, "OUTPUT_FORMAT=json")
	camel := jars(t, "camel-elasticsearch-"+camelVersion,
		kafkatest.Artifact{Group: "org.apache.camel.kafkaconnector", Name: "camel-kafka-connector", Version: camelSinkVersion,
			Without: []string{"io.apicurio:*", "org.apache.kafka:*"}},
		kafkatest.Artifact{Group: "org.apache.camel", Name: "camel-elasticsearch-rest", Version: camelVersion})
	o := startOpenSearch(t)
	c := newConnect(t, cluster.Brokers, filepath.Dir(camel))
	settings, name := camelSettings(t, p, o)
	decode := func(b []byte) (fields map[string]any, err error) {
		if err = json.Unmarshal(b, &fields); err == nil {
			fields["revision"] = int64(fields["revision"].(float64))
		}
		return fields, err
	}
	settle := func(when string) {
		t.Helper()
		c.wait(t, "the documents of the topic, "+when, func() error {
			c.check(t, name)
			docs, err := o.documents("anomalies")
			if err != nil {
				return err
			}
			want := p.records(decode)
			for _, fields := range want {
				if want := document(fields); !reflect.DeepEqual(docs[of(want)], want) {
					return fmt.Errorf("the document is %v, want %v", docs[of(want)], want)
				}
			}
			if len(docs) != len(want) {
				return fmt.Errorf("%d documents of %d records", len(docs), len(want))
			}
			return nil
		})
	}
	p.step(60, 0)
	c.run(t, settings)
	p.step(1, sensors/2)
	p.waitFor(decode, sensors/2, "open")
	settle("opened")
	c.kill()
	p.step(7, 2*sensors/3)
	p.waitFor(decode, 2*sensors/3, "open", "update", "close")
	c.run(t, settings)
	settle("updated while Connect was down")
	p.step(30, 0)
	p.waitFor(decode, 2*sensors/3, "close")
	settle("closed")
	var mapping map[string]struct {
		Mappings struct {
			Properties map[string]struct{ Type string }
		}
	}
	if err := o.get("/anomalies/_mapping", &mapping); err != nil {
		t.Fatal(err)
	}
	for _, field := range times {
		if got := mapping["anomalies"].Mappings.Properties[field].Type; got != "date" {
			t.Errorf("%s is of type %q, want date", field, got)
		}
	}
}

// camelSettings returns elasticsearch.json for Camel's sink, and the connector's name.
func camelSettings(t *testing.T, p *plant, o *opensearch) (settings []byte, name string) {
	t.Helper()
	b, err := os.ReadFile(repository + "/deploy/connect/kafka-connect/elasticsearch.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Name   string            `json:"name"`
		Config map[string]string `json:"config"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"connection.url", "key.ignore", "schema.ignore", "behavior.on.null.values"} {
		delete(file.Config, own)
	}
	for setting, value := range map[string]string{
		"connector.class": "org.apache.camel.kafkaconnector.CamelSinkConnector", "topics": p.anomalies,
		"camel.sink.url": "elasticsearch-rest://odradek?operation=Index&indexName=anomalies&hostAddresses=" + o.addr,
	} {
		file.Config[setting] = value
	}
	if b, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	return b, file.Name
}
